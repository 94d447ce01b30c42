"""The student's copies in work/: an update brings the new version of every notebook, and loses nothing.

The notebooks are those of the course; the new version has a cell more, a cell less, and other words.
"""

from __future__ import annotations

import copy as copying
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from nbgrader.utils import compute_checksum

from distlib.classroom.student_copies.bring import Brought, bring
from distlib.classroom.student_copies.copy_paths import BACKUPS, FIRST_LESSON, FOR_ASSISTANTS, copies
from distlib.classroom.student_copies.merge import merge
from distlib.classroom.student_copies.notebook_json import (
    Cell,
    Notebook,
    is_answer,
    mark_of,
    name_of,
    read_notebook,
    text_of,
    write_notebook,
)

ROOT = Path(__file__).parents[2]
EXERCISE = "work/exercises/02_all_reduce/02_all_reduce.ipynb"
ORIGINAL = "exercises/02_all_reduce/02_all_reduce.ipynb"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """The lessons and exercises, in a folder of their own."""
    for name in ("course", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "*.py"))
    return tmp_path


def code(text: str, name: str = "", **mark: Any) -> Cell:
    """A code cell; with a name it is nbgrader's."""
    metadata = {"nbgrader": {"grade_id": name, **mark}} if name else {}
    return {"cell_type": "code", "id": name or text, "source": text, "metadata": metadata, "outputs": []}


def notebook(*cells: Cell) -> Notebook:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def texts(merged: Notebook) -> list[str]:
    return [text_of(cell) for cell in merged["cells"]]


# Making copies


def test_there_is_a_copy_of_every_lesson_and_exercise(course: Path) -> None:
    made = bring(course)
    assert {done.what for done in made} == {"made"}
    assert len(made) == len([*course.glob("course/[0-9]*.ipynb"), *course.glob("exercises/*/*.ipynb")]) > 10
    assert (course / FIRST_LESSON).is_file() and (course / EXERCISE).is_file()
    assert bring(course) == []


def test_no_two_copies_have_the_same_name() -> None:
    names = [path.name for path in copies(ROOT)]
    assert len(names) == len(set(names))


def test_links_of_copies_lead_to_copies(course: Path) -> None:
    bring(course)
    for path in copies(course):
        nbformat.validate(nbformat.read(path, as_version=4))
        prose = "\n".join(text_of(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "markdown")
        links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose) if not re.match(r"[a-z]+:", link)]
        assert [link for link in links if not (path.parent / link).resolve().is_relative_to(course / "work")] == []
        assert [link for link in links if not (path.parent / link).is_file()] == []
        assert links


def test_a_picture_that_a_lesson_links_to_comes_along(course: Path) -> None:
    path = course / "course" / "04_data_parallel.ipynb"
    lesson = read_notebook(path)
    lesson["cells"][0]["source"] = "![a ring](images/ring.svg)"
    write_notebook(path, lesson)
    bring(course)
    assert (course / "work/lessons/images/ring.svg").read_bytes() == (course / "course/images/ring.svg").read_bytes()


# An update with work in every notebook


def work_on(path: Path) -> list[str]:
    """Write into every answer and every cell that is open, run all cells, and add cells. Returns what was written."""
    mine = read_notebook(path)
    written = []
    for number, cell in enumerate(mine["cells"]):
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [{"output_type": "stream", "name": "stdout", "text": "1"}], 1
        if mark_of(cell) and not is_answer(cell):
            continue
        if number % 2 or is_answer(cell):
            cell["source"] = f"my own line in cell {number}"
            written.append(cell["source"])
    for number in (len(mine["cells"]), 3, 0):
        written.append(f"a cell of my own, put at {number}")
        own = {"cell_type": "code", "id": f"mine{number}", "source": written[-1], "metadata": {}, "outputs": []}
        mine["cells"].insert(number, {**own, "execution_count": 7})
    write_notebook(path, mine)
    return written


def publish(path: Path) -> None:
    """A new version of a notebook of the course: other words in every third cell, one cell more, one less."""
    new = read_notebook(path)
    for cell in new["cells"][::3]:
        cell["source"] = text_of(cell) + "\n# a better explanation"
    del new["cells"][1]
    new["cells"].insert(5, {"cell_type": "markdown", "id": "extra", "source": "A paragraph more.", "metadata": {}})
    for number, cell in enumerate(new["cells"]):  # as the authoring tool numbers them
        cell["id"] = name_of(cell) or f"cell-{number}"
    write_notebook(path, new)


def test_an_update_with_work_in_every_notebook_loses_nothing(course: Path) -> None:
    bring(course)
    pairs = copies(course)
    written = {path: work_on(path) for path in pairs}
    before = {path: path.read_bytes() for path in pairs}
    assert bring(course) == []  # nothing new: nothing is touched
    assert {path: path.read_bytes() for path in pairs} == before
    for original in pairs.values():
        publish(original)
    done = {brought.copy: brought for brought in bring(course)}
    assert [brought.what for brought in done.values()] == ["merged"] * len(pairs)
    for path, original in pairs.items():
        mine, theirs = read_notebook(path), read_notebook(original)
        nbformat.validate(nbformat.read(path, as_version=4))
        backup = done[path].backup
        assert backup is not None and backup.read_bytes() == before[path]
        assert [line for line in written[path] if line not in texts(mine)] == []
        answers = {name_of(c): text_of(c) for c in mine["cells"] if is_answer(c)}
        assert all(text.startswith("my own line") for text in answers.values())
        assert [name_of(c) for c in mine["cells"] if name_of(c)] == [name_of(c) for c in theirs["cells"] if name_of(c)]
        locked = {name_of(c): text_of(c) for c in theirs["cells"] if mark_of(c) and not is_answer(c)}
        assert {name_of(c): text_of(c) for c in mine["cells"] if name_of(c) in locked} == locked
        assert "A paragraph more." in texts(mine)
    assert bring(course) == []


def test_an_update_of_copies_that_were_only_run_replaces_them(course: Path) -> None:
    bring(course)
    for path in copies(course):
        ran = read_notebook(path)
        for cell in ran["cells"]:
            if cell["cell_type"] == "code":
                cell["execution_count"] = 3
        write_notebook(path, ran)
    for original in copies(course).values():
        publish(original)
    assert {done.what for done in bring(course)} == {"replaced"}
    assert not (course / BACKUPS).exists()
    assert "A paragraph more." in texts(read_notebook(course / EXERCISE))


def test_a_second_update_in_the_same_second_keeps_both_backups(course: Path) -> None:
    bring(course)
    backups: set[Path | None] = set()
    for line in ("one", "two", "three"):
        mine = read_notebook(course / EXERCISE)
        mine["cells"].append(code(line))
        write_notebook(course / EXERCISE, mine)
        publish(course / ORIGINAL)
        backups |= {done.backup for done in bring(course)}
    assert len(backups) == 3
    assert texts(read_notebook(course / EXERCISE))[-3:] == ["one", "two", "three"]


def test_a_tab_that_was_open_during_the_update_and_saves_afterwards_loses_nothing(course: Path) -> None:
    bring(course)
    in_the_tab = read_notebook(course / EXERCISE)
    publish(course / ORIGINAL)
    assert [done.what for done in bring(course)] == ["replaced"]
    in_the_tab["cells"][4]["source"] = "written in the tab"
    write_notebook(course / EXERCISE, in_the_tab)  # "Overwrite"
    assert [done.what for done in bring(course)] == ["merged"]
    merged = read_notebook(course / EXERCISE)
    assert "written in the tab" in texts(merged) and "A paragraph more." in texts(merged)
    assert len(merged["cells"]) == len(read_notebook(course / ORIGINAL)["cells"])


def test_a_notebook_that_came_through_the_exchange_becomes_the_copy(course: Path) -> None:
    (course / EXERCISE).parent.mkdir(parents=True)
    fetched = read_notebook(course / ORIGINAL)
    answer = next(cell for cell in fetched["cells"] if is_answer(cell))
    answer["source"] = "my answer"
    fetched["cells"].append(code("my own cell"))
    write_notebook(course / EXERCISE, fetched)
    assert Brought(course / EXERCISE, "made") not in bring(course)
    mine = read_notebook(course / EXERCISE)
    assert "my answer" in texts(mine) and texts(mine)[-1] == "my own cell"
    assert len(mine["cells"]) == len(fetched["cells"])
    assert "](../../lessons/lesson_02_all_reduce.ipynb)" in texts(mine)[0]


def test_a_fetched_notebook_without_work_is_not_announced_as_newer(course: Path) -> None:
    bring(course)
    shutil.copy(course / ORIGINAL, course / EXERCISE)
    assert bring(course) == []
    assert "](../../lessons/lesson_02_all_reduce.ipynb)" in texts(read_notebook(course / EXERCISE))[0]


def test_answers_that_were_written_into_the_course_itself_are_taken_along(course: Path) -> None:
    clean = (course / ORIGINAL).read_bytes()
    dirty = read_notebook(course / ORIGINAL)
    next(cell for cell in dirty["cells"] if is_answer(cell))["source"] = "my answer"
    write_notebook(course / ORIGINAL, dirty)
    bring(course)
    (course / ORIGINAL).write_bytes(clean)
    bring(course)
    assert "my answer" in texts(read_notebook(course / EXERCISE))


def test_what_is_not_a_notebook_is_left_alone_and_named(course: Path) -> None:
    bring(course)
    (course / EXERCISE).write_text('{"cells": [')
    assert bring(course) == [Brought(course / EXERCISE, "unreadable")]
    assert (course / EXERCISE).read_text() == '{"cells": ['


def test_a_broken_notebook_of_the_course_does_not_stop_the_others(course: Path) -> None:
    bring(course)
    (course / ORIGINAL).write_text("<<<<<<< HEAD")
    publish(course / "course" / "00_start_here.ipynb")
    assert {done.what: done.copy.stem for done in bring(course)} == {
        "broken": "02_all_reduce",
        "replaced": "lesson_00_start_here",
    }
    assert read_notebook(course / EXERCISE)


# Merging


STUB = "raise NotImplementedError"
OLD = notebook(code("a"), code(STUB, "f", solution=True), code("test", "f_visible"), code("b"))


def changed(base: Notebook, *edits: tuple[int, str]) -> Notebook:
    result = copying.deepcopy(base)
    for number, text in edits:
        result["cells"][number]["source"] = text
    return result


@pytest.mark.parametrize(
    ("mine", "new", "expected"),
    [
        (changed(OLD, (0, "a, mine")), OLD, ["a, mine", STUB, "test", "b"]),
        (changed(OLD, (0, "mine")), changed(OLD, (0, "new")), ["new", "mine", STUB, "test", "b"]),
        (changed(OLD, (1, "mine")), changed(OLD, (1, f"{STUB}  # new")), ["a", "mine", "test", "b"]),
        (changed(OLD, (2, "cheat")), changed(OLD, (2, "new")), ["a", STUB, "new", "b"]),
        (OLD, changed(OLD, (1, f"{STUB}  # new")), ["a", f"{STUB}  # new", "test", "b"]),
        (changed(OLD, (1, "mine")), notebook(code("a")), ["a", "mine"]),  # the function is no longer in the exercise
        (changed(OLD, (3, "b, mine")), notebook(*OLD["cells"][:3]), ["a", STUB, "test", "b, mine"]),
        (changed(OLD, (1, "  ")), OLD, ["a", STUB, "test", "b"]),
        (notebook(*OLD["cells"][:3]), OLD, ["a", STUB, "test", "b"]),  # deleted: it comes back
    ],
)
def test_what_becomes_of_a_cell(mine: Notebook, new: Notebook, expected: list[str]) -> None:
    given = json.dumps([OLD, mine, new])
    assert texts(merge(OLD, mine, new)) == expected
    assert json.dumps([OLD, mine, new]) == given


def test_a_program_to_mend_is_no_answer_until_it_is_changed() -> None:
    sick, newer = code("sick", "f", solution=True), code("sick in a new way", "f", solution=True)
    mark = sick["metadata"]["nbgrader"]
    mark["checksum"] = compute_checksum(new_code_cell("sick", metadata={"nbgrader": mark}))
    old = notebook(sick)
    assert texts(merge(old, old, notebook(newer))) == ["sick in a new way"]
    assert texts(merge(old, changed(old, (0, "mended")), notebook(newer))) == ["mended"]


def test_an_answer_whose_function_is_gone_does_not_take_the_place_of_another_one() -> None:
    f, g = code(STUB, "f", solution=True), code(STUB, "g", solution=True)
    mine = changed(notebook(f, g), (0, "f, mine"), (1, "g, mine"))
    assert sorted(texts(merge(notebook(f, g), mine, notebook(code("new"), g)))) == ["f, mine", "g, mine", "new"]


def edited(cells: list[Cell], who: str, draw: random.Random) -> list[Cell]:
    """Cells with some changed, deleted, moved, copied and added, as a student ("mine") or the course ("new") may."""
    cells = copying.deepcopy(cells)
    for number in range(draw.randint(0, 4)):
        what, at = draw.choice(["change", "delete", "move", "copy", "add"]), draw.randrange(max(1, len(cells)))
        is_open = bool(cells) and (is_answer(cells[at]) or not mark_of(cells[at]))
        if what == "delete" and cells:
            del cells[at]
        elif what == "move" and cells:
            cells.insert(draw.randint(0, len(cells) - 1), cells.pop(at))
        elif what == "change" and is_open:
            stub = f" {STUB}" if who == "new" and is_answer(cells[at]) else ""
            cells[at]["source"] = f"{who} {number}{stub}"
        elif what == "copy" and is_open and who == "mine":
            again = {**copying.deepcopy(cells[at]), "id": f"copy {number}", "source": f"mine {number}"}
            cells.insert(draw.randint(0, len(cells)), again)
        elif what == "add":
            cells.insert(draw.randint(0, len(cells)), {**code(f"{who} {number}"), "id": f"{who} {number}"})
    return cells


@pytest.mark.parametrize("known", [True, False])
def test_whatever_was_edited_nothing_is_lost(known: bool) -> None:
    for seed in range(1000):
        draw = random.Random(seed)
        kinds = [draw.choice(["answer", "test", "open"]) for _ in range(draw.randint(0, 6))]
        old = []
        for number, kind in enumerate(kinds):
            text = {"answer": STUB, "test": "test", "open": draw.choice("abb")}[kind]
            name = "" if kind == "open" else f"{kind}_{number}"
            old.append({**code(text, name, solution=kind == "answer"), "id": name or f"cell-{number}"})
        mine, new = edited(old, "mine", draw), edited(old, "new", draw)
        for number, cell in enumerate(new):
            cell["id"] = name_of(cell) or f"cell-{number}"
        merged = merge(notebook(*old) if known else None, notebook(*mine), notebook(*new))["cells"]
        said = [text_of(cell) for cell in merged]
        assert [text for text in map(text_of, mine) if text.startswith("mine") and said.count(text) != 1] == [], seed
        told = [text_of(cell) for cell in new if text_of(cell).startswith("new") and not is_answer(cell)]
        assert [text for text in told if text not in said] == [], seed
        assert [name_of(c) for c in merged if name_of(c)] == [name_of(c) for c in new if name_of(c)], seed
        assert len({cell["id"] for cell in merged}) == len(merged), seed


def test_of_two_cells_with_one_name_the_second_becomes_an_own_cell() -> None:
    mine = changed(OLD, (1, "first"))
    mine["cells"].insert(2, code("second", "f", solution=True))
    merged = merge(OLD, mine, OLD)
    assert texts(merged) == ["a", "first", "second", "test", "b"]
    assert [name_of(cell) for cell in merged["cells"]] == ["", "f", "", "f_visible", ""]
    assert len({cell["id"] for cell in merged["cells"]}) == 5


def test_a_pasted_picture_stays_with_its_answer() -> None:
    answer = {**code("YOUR ANSWER HERE", "why", solution=True, grade=True), "cell_type": "markdown"}
    picture = {"sketch.png": {"image/png": "AAAA"}}
    mine = notebook({**answer, "source": "![](attachment:sketch.png)", "attachments": picture})
    assert merge(notebook(answer), mine, notebook(code("new"), answer))["cells"][1]["attachments"] == picture


def test_a_kernel_that_the_student_chose_stays() -> None:
    mine = {**OLD, "metadata": {"kernelspec": {"name": "mine"}}}
    new = {**OLD, "metadata": {"kernelspec": {"name": "python3"}, "distlib": {"version": "2"}}}
    assert merge(OLD, mine, new)["metadata"] == {"kernelspec": {"name": "mine"}, "distlib": {"version": "2"}}


def test_a_copy_without_hints_gets_them_and_keeps_its_answers(course: Path) -> None:
    with_hints = read_notebook(course / ORIGINAL)
    old = {**with_hints, "cells": [cell for cell in with_hints["cells"] if not cell["id"].endswith("_hints")]}
    write_notebook(course / ORIGINAL, old)
    bring(course)
    mine = read_notebook(course / EXERCISE)
    for cell in mine["cells"]:
        if is_answer(cell):
            cell["source"] = f"# my {name_of(cell)}"
    write_notebook(course / EXERCISE, mine)
    write_notebook(course / ORIGINAL, with_hints)
    bring(course)
    updated = read_notebook(course / EXERCISE)["cells"]
    assert [cell["id"] for cell in updated] == [cell["id"] for cell in with_hints["cells"]]
    assert [name_of(cell) for cell in updated if name_of(cell)] == [name_of(c) for c in old["cells"] if name_of(c)]
    assert all(text_of(cell) == f"# my {name_of(cell)}" for cell in updated if is_answer(cell))


def test_the_folder_asks_assistants_to_tutor_and_a_students_own_words_stay(course: Path) -> None:
    bring(course)
    asked = course / "work" / "AGENTS.md"
    assert asked.read_text(encoding="utf-8") == FOR_ASSISTANTS.read_text(encoding="utf-8")
    assert "tutor" in asked.read_text(encoding="utf-8")
    asked.write_text("Mine.")
    bring(course)
    assert asked.read_text() == "Mine."
