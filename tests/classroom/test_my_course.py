"""Where a student is: what is read from their folder, what is kept there, what is said about the next step."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course.after_check import finished
from distlib.classroom.my_course.course_reading import note_work, read_course
from distlib.classroom.my_course.evidence import LastCheck
from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.my_course.last_check import keep_check, read_check
from distlib.classroom.my_course.lesson_promise import promise_of
from distlib.classroom.my_course.marks_back import marks_back
from distlib.classroom.my_course.own_course import OwnExercise, OwnLesson
from distlib.classroom.my_course.progress_table import PAGE, hours, progress_text, write_page
from distlib.classroom.register.term_dates import DUE_DATES, TermDates, text_of
from distlib.classroom.self_check.results import FAILS, NOT_WRITTEN, PASSES, FunctionRow, Result, Results, row_of
from distlib.classroom.self_check.table import Table
from distlib.classroom.student_copies.bring import bring
from distlib.classroom.student_copies.notebook_json import Notebook, read_notebook, write_notebook
from distlib.classroom.uploads.hand_in import hand_in_notebook
from distlib.cli import main, where_am_i
from distlib.ordinary_file import read_ordinary
from tests.tools.tiny_course import ROOT

LESSONS = ["00_start_here", "01_messages", "02_all_reduce", "03_trees_and_grids", "03b_networks", "04_data_parallel"]
NAME = "02_all_reduce"
FUNCTIONS = ["naive_all_reduce", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce"]
LESSON, EXERCISE = f"work/lessons/lesson_{NAME}.ipynb", f"work/exercises/{NAME}/{NAME}.ipynb"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A few lessons and one exercise, as a student has them; the copies are made."""
    return make_course(tmp_path / "course")


def make_course(folder: Path) -> Path:
    (folder / "course").mkdir(parents=True)
    for lesson in LESSONS:
        shutil.copy(ROOT / "course" / f"{lesson}.ipynb", folder / "course")
    (folder / "exercises" / NAME).mkdir(parents=True)
    shutil.copy(ROOT / "exercises" / NAME / f"{NAME}.ipynb", folder / "exercises" / NAME)
    (folder / "distlib").mkdir()
    (folder / "distlib" / "__init__.py").touch()
    bring(folder)
    return folder


def run(path: Path, share: float = 1.0, at: int = 2_000_000_000) -> None:
    """As if a student had run the first cells of a notebook, and saved it at that time, in seconds since 1970."""
    notebook = read_notebook(path)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells[: round(share * len(cells))], 1):
        cell["execution_count"] = number
    save(path, notebook, at)


def write(path: Path, *functions: str, at: int = 2_000_000_000) -> None:
    """As if a student had written these functions."""
    notebook = read_notebook(path)
    for cell in notebook["cells"]:
        if (name := cell["metadata"].get("nbgrader", {}).get("grade_id")) in functions:
            cell["source"] = code_of(name)
    save(path, notebook, at)


def code_of(function: str) -> str:
    """What a student has written."""
    return f"def {function}(comm, tensor):\n    comm.barrier()"


def save(path: Path, notebook: Notebook, at: int) -> None:
    write_notebook(path, notebook)
    os.utime(path, (at, at))


def results(**states: str) -> Results:
    """What a check said: a state for each function; those not named are not written."""
    rows = [row_of(name, Result(states.get(name, NOT_WRITTEN)), None, code_of(name)) for name in FUNCTIONS]
    return Results(NAME, "Looked at it.", rows, [])


def all_pass() -> Results:
    return results(**dict.fromkeys(FUNCTIONS, PASSES))


def lesson_of(course: Path, name: str = NAME) -> OwnLesson:
    return next(lesson for lesson in read_course(course).lessons if lesson.name == name)


def exercise_of(course: Path) -> OwnExercise:
    (exercise,) = read_course(course).exercises
    return exercise


# ── what is read ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fresh_folder_is_at_its_beginning(course: Path) -> None:
    own = read_course(course)
    assert [lesson.name for lesson in own.lessons] == LESSONS
    assert [lesson.promise.is_optional for lesson in own.lessons] == [False] * 4 + [True, False]
    assert (own.last, own.remarks, own.minutes_done) == ("", [], 0)
    assert own.next_step == "Open lesson 00, Start here."
    assert exercise_of(course).names("not written") == FUNCTIONS
    assert note_work(course) == "" and not (course / "work" / "progress").exists()


def test_reading_changes_nothing(course: Path) -> None:
    run(course / LESSON)
    before = {path: path.read_bytes() for path in course.rglob("*") if path.is_file()}
    read_course(course)
    assert {path: path.read_bytes() for path in course.rglob("*") if path.is_file()} == before


def test_cells_that_ran(course: Path) -> None:
    run(course / LESSON, 0.5)
    lesson = lesson_of(course)
    assert 0 < lesson.seen.ran < lesson.seen.cells and not lesson.has_run
    assert read_course(course).next_step.startswith("Go on with lesson 02, All-reduce: ")
    run(course / LESSON)
    assert lesson_of(course).seen.share == 1 and lesson_of(course).has_run


def test_folded_cells_do_not_count(course: Path) -> None:
    notebook = read_notebook(course / LESSON)
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code" and "folded" not in cell["metadata"].get("tags", []):
            cell["execution_count"] = number + 1
    save(course / LESSON, notebook, 2_000_000_000)
    assert any("folded" in cell["metadata"].get("tags", []) for cell in notebook["cells"])
    assert lesson_of(course).seen.share == 1


def test_where_the_student_was(course: Path) -> None:
    run(course / "work/lessons/lesson_03_trees_and_grids.ipynb", at=2_000_000_000)
    write(course / EXERCISE, "ring_all_gather", at=2_000_000_100)
    assert read_course(course).last == f"exercises/{NAME}/{NAME}.ipynb"
    run(course / "work/lessons/lesson_03_trees_and_grids.ipynb", 0.2, at=2_000_000_200)
    assert read_course(course).last == "lessons/lesson_03_trees_and_grids.ipynb"


def test_functions_written_checked_handed_in_and_marked(course: Path) -> None:
    write(course / EXERCISE, "naive_all_reduce", "ring_all_gather", "ring_all_reduce")
    assert exercise_of(course).names("not checked") == ["naive_all_reduce", "ring_all_gather", "ring_all_reduce"]
    keep_check(course, results(naive_all_reduce=PASSES, ring_all_gather=FAILS))
    exercise = exercise_of(course)
    states = {each.name: exercise.state(each) for each in exercise.functions}
    assert list(states.values()) == ["passes", "not written", "fails", "not checked"]
    assert exercise.minutes_done == exercise.promise.minutes / 4
    before = datetime.now(UTC)
    hand_in_notebook(NAME, student="Ada", start=course, ran=())
    (course / "work" / "feedback").mkdir()
    page = f'<!DOCTYPE html><head><meta name="distlib-marks" content="{NAME} 7.5 20">'
    (course / "work" / "feedback" / "any name.html").write_text(page)
    exercise = exercise_of(course)
    assert exercise.handed_in and before <= exercise.handed_in <= datetime.now(UTC)
    assert exercise.marks == PointSum(7.5, 20)
    assert exercise.minutes_done == exercise.promise.minutes * 7.5 / 20, "a hand-in alone bears no hours"
    text = progress_text(read_course(course))
    assert "◐ 1 of 4 passes" in text and "7.5 of 20" in text
    assert " 1 of 1 hand-in made; " in text and "handed in" not in text
    assert f"made {exercise.handed_in.astimezone():%d %b}" in text  # whether it was uploaded, nobody knows here


def test_due_dates_have_a_column_where_any_is_known(course: Path) -> None:
    assert " due " not in progress_text(read_course(course))
    due = datetime(2030, 11, 2, 22, 59, tzinfo=UTC)
    (course / DUE_DATES).write_text(text_of(TermDates({NAME: due})))
    own = read_course(course)
    assert f"{due.astimezone():%d %b %H:%M}" in progress_text(own) and " due " in progress_text(own)
    write_page(course, own)
    page = (course / "work" / "my_course.md").read_text()
    assert f"| {due.astimezone():%d %b %H:%M} |" in page and "| due |" in page


def test_points_that_wait_for_a_mark_by_hand_are_shown(course: Path) -> None:
    (course / "work" / "feedback").mkdir(parents=True)
    page = f'<meta name="distlib-marks" content="{NAME} 26 30 10">'
    (course / "work" / "feedback" / "page.html").write_text(page)
    assert exercise_of(course).marks == PointSum(26, 30, waiting=10)
    assert "26 of 30, 10 open" in progress_text(read_course(course))


def test_titles_are_cut_only_where_a_row_has_no_room(course: Path) -> None:
    own = read_course(course)
    table = progress_text(own).split("\n\n")[0].splitlines()
    optional = "Grids, two trees, many nodes, optional"
    widest = max(map(len, table))
    assert any(optional in line for line in table) and "…" not in "".join(table)
    assert progress_text(own, widest).splitlines()[: len(table)] == table
    narrow = progress_text(own, widest - 4).split("\n\n")[0].splitlines()
    assert max(map(len, narrow)) <= widest - 4 and any("Grids, two trees, many…, optional" in line for line in narrow)
    assert [line.split()[-1] for line in table[1:4]] == [f"{own.lessons[n].minutes / 60:.1f}" for n in range(3)]
    assert "Grids, tw…, optional" in progress_text(own, 10)  # some letters of it stand there in any case
    write_page(course, own)
    assert optional in (course / PAGE).read_text()


def test_a_function_that_was_emptied_again_does_not_pass(course: Path) -> None:
    keep_check(course, all_pass())
    assert exercise_of(course).names("not written") == FUNCTIONS


def test_a_hidden_test_that_fails_is_a_function_that_fails(course: Path) -> None:
    write(course / EXERCISE, *FUNCTIONS)
    rows = [FunctionRow(name, Result(PASSES), Result(PASSES)) for name in FUNCTIONS[1:]]
    keep_check(course, Results(NAME, "", [FunctionRow(FUNCTIONS[0], Result(PASSES), Result(FAILS)), *rows], []))
    assert exercise_of(course).names(FAILS) == [FUNCTIONS[0]] and not exercise_of(course).passes


def test_of_several_feedback_pages_the_newest_counts(course: Path) -> None:
    for number, (got, at) in enumerate([(3, 300), (5, 500), (4, 400)]):
        page = course / "work" / "exercises" / NAME / "feedback" / str(number) / f"{NAME}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<meta name="distlib-marks" content="{NAME} {got} 20">')
        os.utime(page, (at, at))
    (course / "work" / "feedback").mkdir()
    (course / "work" / "feedback" / "holiday.html").write_text("<h1>Sun</h1>")
    assert marks_back(course) == {NAME: PointSum(5, 20)}


def test_what_is_no_ordinary_file_is_not_waited_for(course: Path) -> None:
    (course / "work" / "feedback").mkdir(parents=True)
    os.mkfifo(course / "work" / "feedback" / "pipe.html")
    (course / "work" / "feedback" / "endless.html").symlink_to("/dev/zero")
    assert marks_back(course) == {}
    os.mkfifo(course / "work" / "progress.json")
    with pytest.raises(OSError, match="not an ordinary file"):
        read_ordinary(course / "work" / "progress.json")


# ── the next step ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_steps_of_a_lesson_with_an_exercise(course: Path) -> None:
    said = []
    run(course / LESSON)
    said.append(read_course(course).next_step)
    write(course / EXERCISE, "naive_all_reduce", "ring_reduce_scatter")
    said.append(read_course(course).next_step)
    keep_check(course, results(naive_all_reduce=FAILS, ring_reduce_scatter=FAILS))
    said.append(read_course(course).next_step)
    write(course / EXERCISE, *FUNCTIONS)
    keep_check(course, results(naive_all_reduce=PASSES))
    said.append(read_course(course).next_step)
    keep_check(course, all_pass())
    said.append(read_course(course).next_step)
    hand_in_notebook(NAME, student="Ada", start=course, ran=())
    said.append(read_course(course).next_step)
    wrong = "naive_all_reduce and ring_reduce_scatter in exercise 02 (distlib check 02 says what is wrong)"
    assert said == [
        "Begin exercise 02: write naive_all_reduce.",
        "Write ring_all_gather in exercise 02.",
        f"Mend {wrong}.",
        "Check exercise 02 (distlib check 02).",
        "Hand in exercise 02 (distlib hand-in 02), then go on with lesson 03, Trees.",
        "Open lesson 03, Trees.",
    ]


def test_an_optional_lesson_is_never_asked_for_but_is_gone_on_with(course: Path) -> None:
    run(course / "work/lessons/lesson_03_trees_and_grids.ipynb")
    assert read_course(course).next_step == "Open lesson 04, Data parallel."
    run(course / "work/lessons/lesson_03b_networks.ipynb", 0.5, at=2_000_000_100)
    assert read_course(course).next_step.startswith("Go on with lesson 03b, Grids, two trees, many nodes: ")


def test_hours_of_optional_lessons_count_once_they_are_begun(course: Path) -> None:
    before = read_course(course)
    run(course / "work/lessons/lesson_03b_networks.ipynb")
    after, optional = read_course(course), lesson_of(course, "03b_networks").promise.minutes
    assert (before.minutes_done, after.minutes_done) == (0, 0), "that cells ran is no evidence of work"
    assert after.minutes_to_come == before.minutes_to_come + optional
    assert hours(90) == "1.5 hours" and hours(60) == "1 hour" and hours(2_650) == "44 hours"


def test_an_exercise_without_a_lesson_of_its_name_is_an_optional_row(course: Path) -> None:
    before, name = read_course(course), "02b_rings"
    shutil.copytree(course / "exercises" / NAME, course / "exercises" / name)
    (course / "exercises" / name / f"{NAME}.ipynb").rename(course / "exercises" / name / f"{name}.ipynb")
    bring(course)
    there = read_course(course)
    assert [lesson.name for lesson in there.lessons] == sorted([*LESSONS, name])
    assert there.minutes_to_come == before.minutes_to_come and there.next_step == before.next_step
    assert "All-reduce, optional exercise" in progress_text(there)
    assert f"| 02b | [All-reduce, optional exercise](exercises/{name}/{name}.ipynb) |" in page_of(course)
    write(course / f"work/exercises/{name}/{name}.ipynb", FUNCTIONS[0], at=2_000_000_100)
    begun = read_course(course)
    assert begun.minutes_to_come == before.minutes_to_come + begun.exercises[0].promise.minutes
    assert begun.next_step == f"Write {FUNCTIONS[1]} in exercise 02b."
    assert f"Run: 0 of {len(LESSONS) - 1} lessons." in progress_text(begun)


def page_of(course: Path) -> str:
    write_page(course, read_course(course))
    return (course / PAGE).read_text()


def test_at_the_end_it_is_shown(course: Path) -> None:
    for lesson in LESSONS:
        run(course / f"work/lessons/lesson_{lesson}.ipynb")
    hand_in_notebook(NAME, student="Ada", start=course, ran=(), sure=True)
    assert read_course(course).next_step == "You have come to the end. Show it: distlib report"


# ── after a check ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_check_that_passes_says_what_comes_next_and_is_kept(course: Path) -> None:
    write(course / EXERCISE, *FUNCTIONS)
    done = finished(all_pass(), course / EXERCISE)
    step = "Next: hand it in, in the last cell or with distlib hand-in 02_all_reduce; "
    assert done.then == f"{step}then open lesson 03, Trees."
    assert done.then in str(Table(done)) and done.then in Table(done)._repr_html_()
    assert exercise_of(course).passes
    assert "✓ 4 of 4 pass" in (course / PAGE).read_text()
    hand_in_notebook(NAME, student="Ada", start=course, ran=())
    done = finished(all_pass(), course / EXERCISE)
    assert done.then.startswith("Your last hand-in is of ") and done.then.endswith("Next: open lesson 03, Trees.")


def test_a_check_that_fails_is_kept_without_a_next_step(course: Path) -> None:
    done = finished(results(naive_all_reduce=FAILS), course / EXERCISE)
    assert done.then == ""
    assert read_check(course, NAME)[0].states == {
        "naive_all_reduce": FAILS,
        **dict.fromkeys(FUNCTIONS[1:], NOT_WRITTEN),
    }


def test_somebody_elses_notebook_is_checked_and_forgotten(course: Path, tmp_path: Path) -> None:
    for path in (tmp_path / f"{NAME}.ipynb", course / "exercises" / NAME / f"{NAME}.ipynb"):
        assert finished(all_pass(), path) == all_pass()
    assert read_check(course, NAME) == (LastCheck(), "")


# ── what is kept, and what became of it ──────────────────────────────────────────────────────────────────────────────


def test_an_update_does_not_forget_what_ran(course: Path) -> None:
    run(course / LESSON, at=2_000_000_000)
    write(course / EXERCISE, "ring_all_gather", at=1_999_999_000)
    assert note_work(course) == ""
    for original in (course / "course" / f"{NAME}.ipynb", course / "exercises" / NAME / f"{NAME}.ipynb"):
        newer = read_notebook(original)
        newer["cells"].insert(1, {"cell_type": "markdown", "id": "n", "metadata": {}, "source": "Something new."})
        write_notebook(original, newer)
    assert len(bring(course)) == 2
    assert "execution_count" not in str(
        [c for c in read_notebook(course / LESSON)["cells"] if c.get("execution_count")]
    )
    assert lesson_of(course).has_run
    assert [each.name for each in exercise_of(course).functions if each.source] == ["ring_all_gather"]


def test_a_folder_that_was_moved_knows_where_the_student_was(course: Path, tmp_path: Path) -> None:
    run(course / LESSON, at=2_000_000_100)
    run(course / "work/lessons/lesson_01_messages.ipynb", at=2_000_000_000)
    write(course / EXERCISE, *FUNCTIONS, at=1_999_999_000)
    keep_check(course, all_pass())
    note_work(course)
    kept = "".join(path.read_text() for path in (course / "work" / "progress").rglob("*.json"))
    assert str(tmp_path) not in kept and os.sep + "work" not in kept
    moved = tmp_path / "elsewhere"
    shutil.copytree(course, moved, copy_function=shutil.copyfile)  # with the time of the copying
    shutil.rmtree(course)
    own = read_course(moved)
    assert own.last == f"lessons/lesson_{NAME}.ipynb" and own.exercises[0].passes and own.remarks == []


TORN = {
    "cut": '{"format": 1, "checked": "2030-11-0',
    "empty": "",
    "a list": "[1, 2]",
    "other JSON": '{"a": 1}',
    "not text": "\ud800\udfff",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("file", ["checks/02_all_reduce.json", "notebooks.json"])
@pytest.mark.parametrize("text", TORN.values(), ids=TORN)
def test_a_torn_file_is_said_set_aside_and_replaced(course: Path, file: str, text: str) -> None:
    path, content = course / "work" / "progress" / file, text.encode("utf-8", "surrogatepass")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    run(course / LESSON)
    own = read_course(course)
    (remark,) = own.remarks
    assert remark.startswith(f"work/progress/{file} is ") and path.read_bytes() == content
    assert lesson_of(course).has_run
    told = [note_work(course), *finished(results(), course / EXERCISE).remarks]
    assert sum("It is kept as work/progress/set_aside/" in each for each in told) == 1
    (kept,) = (course / "work" / "progress" / "set_aside").iterdir()
    assert kept.read_bytes() == content
    assert read_course(course).remarks == []


def test_a_file_of_a_newer_version_is_said_and_not_lost(course: Path) -> None:
    newer = {"format": 2, "checked": {"something": "new"}}
    path = course / "work" / "progress" / "checks" / f"{NAME}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(newer))
    assert "was written by a newer version of the course: distlib update brings that." in read_check(course, NAME)[1]
    for _ in range(2):
        path.write_text(json.dumps(newer))
        assert "set_aside" in keep_check(course, all_pass())
    kept = sorted((course / "work" / "progress" / "set_aside").iterdir())
    assert [json.loads(each.read_text()) for each in kept] == [newer, newer]


@pytest.mark.parametrize(
    "content",
    [
        {"checked": "yesterday", "functions": {}},
        {"checked": 3, "functions": {}},
        {"functions": {}},
        {"checked": "2030-11-02T21:47:02+00:00", "functions": ["ring"]},
    ],
)
def test_a_check_that_was_changed_by_hand_is_said(course: Path, content: dict[str, object]) -> None:
    write_kept(course, f"checks/{NAME}.json", content)
    last, said = read_check(course, NAME)
    assert last == LastCheck() and said.endswith("changed by hand. Run: distlib check 02_all_reduce")


def test_entries_of_notebooks_that_were_changed_by_hand_are_left_out(course: Path) -> None:
    good = {"ran": 1, "cells": 2, "worked": "2030-11-02T21:47:02+00:00", "content": "x"}
    bad = [{**good, "ran": 3}, {**good, "worked": "soon"}, {**good, "more": 1}, {"ran": "1"}, 7, None]
    entries: dict[str, object] = {f"lessons/lesson_{number}.ipynb": entry for number, entry in enumerate(bad)}
    write_kept(course, "notebooks.json", {"notebooks": {**entries, "lessons/lesson_01_messages.ipynb": good}})
    own = read_course(course)
    assert [lesson.seen.ran for lesson in own.lessons] == [0, 1, 0, 0, 0, 0] and own.remarks == []


def test_nothing_kept_and_something_kept(course: Path) -> None:
    assert read_kept(course, "a.json") == {}
    assert write_kept(course, "a.json", {"b": "ä"}) == ""
    assert read_kept(course, "a.json") == {"format": 1, "b": "ä"}
    (course / "work" / "progress" / "a.json").unlink()
    (course / "work" / "progress" / "a.json").mkdir()
    with pytest.raises(KeptFileError, match="a.json can't be read: Is a directory"):
        read_kept(course, "a.json")


# ── other bad input ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_notebook_that_is_none(course: Path) -> None:
    run(course / LESSON)
    note_work(course)
    for path in (course / LESSON, course / EXERCISE):
        path.write_text("<html>Log in</html>")
    own = read_course(course)
    assert [remark.partition(" is not a notebook any more")[0] for remark in own.remarks] == [EXERCISE, LESSON]
    assert lesson_of(course).has_run and own.last == f"lessons/lesson_{NAME}.ipynb"
    assert note_work(course) == "" and lesson_of(course).has_run
    assert (course / LESSON).read_text() == "<html>Log in</html>"


def test_copies_of_a_different_version(course: Path) -> None:
    original = course / "course" / f"{NAME}.ipynb"
    newer = read_notebook(original)
    newer["cells"].pop()
    write_notebook(original, newer)
    said = "is of a different version of the course. distlib lab brings this one, with what you wrote."
    assert read_course(course).remarks == [f"{NAME} {said}"]
    write_notebook(course / "course" / "01_messages.ipynb", newer)
    assert read_course(course).remarks[0].startswith("2 of your notebooks are of a different version")


def test_a_course_without_copies_and_an_original_that_is_broken(course: Path) -> None:
    shutil.rmtree(course / "work")
    own = read_course(course)
    assert own.remarks == ["There is no folder work/ yet. distlib lab makes it, with your copies of all notebooks."]
    assert note_work(course) == "" and own.next_step == "Open lesson 00, Start here."
    write_page(course, own)
    assert not (course / "work").exists()
    (course / "course" / "01_messages.ipynb").write_text("{}")
    assert "The course's own 01_messages.ipynb is broken. Get it again: distlib update" in read_course(course).remarks


@pytest.mark.parametrize("odd", [None, 7, "x", [], [7], {}, {"nbgrader": 7}, {"version": []}], ids=repr)
def test_a_notebook_that_is_json_but_odd_does_no_harm(course: Path, odd: object) -> None:
    for key in ("cell_type", "source", "metadata", "outputs", "execution_count", "id"):
        for copy, original in ((LESSON, f"course/{NAME}.ipynb"), (EXERCISE, f"exercises/{NAME}/{NAME}.ipynb")):
            notebook = read_notebook(course / original)
            for cell in notebook["cells"]:
                cell[key] = odd
            notebook["metadata"]["distlib"] = odd
            save(course / copy, notebook, 2_000_000_000)
        own = read_course(course)
        assert len(own.exercises) == 1 and progress_text(own)
        assert note_work(course) == ""


def test_what_can_not_be_kept_is_said_and_the_check_stands(course: Path) -> None:
    (course / "work" / "progress").write_text("a file where a folder should be")
    (course / PAGE).mkdir()
    done = finished(all_pass(), course / EXERCISE)
    (remark,) = done.remarks
    assert remark.startswith("what passes could not be kept in work/: ") and done.passes and done.then
    run(course / LESSON)
    assert note_work(course).startswith("work/ can't be written (")


def test_odd_cells_and_tags_do_no_harm(course: Path) -> None:
    notebook = read_notebook(course / LESSON)
    notebook["cells"] += [
        {"cell_type": "code", "source": "1", "metadata": {"tags": 7}, "execution_count": 3},
        {"cell_type": "code", "source": ["1", "\n"], "metadata": {"tags": [["folded"]]}},
        {"cell_type": "new", "source": "1", "metadata": {}},
    ]
    before = lesson_of(course).seen
    save(course / LESSON, notebook, 2_000_000_000)
    after = lesson_of(course).seen
    assert (after.ran, after.cells) == (1, before.cells + 2)


# ── what notebooks promise ───────────────────────────────────────────────────────────────────────────────────────────


NOTEBOOKS = sorted([*ROOT.glob("course/[0-9]*.ipynb"), *ROOT.glob("exercises/*/*.ipynb")])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_notebook_has_a_promise(path: Path) -> None:
    promise = promise_of(read_notebook(path))
    assert promise.title != "without a title" and 20 <= promise.minutes <= 240
    if path.parent.name == "course":
        assert len(promise.able) >= 3 and all(15 < len(phrase) < 160 for phrase in promise.able)
        assert promise.is_optional <= (f"](course/{path.name}), side road |" in README or path.stem == "18_gpus")


README = (ROOT / "README.md").read_text()


def test_a_notebook_without_a_promise() -> None:
    promise = promise_of({"cells": [{"cell_type": "code", "source": "1"}], "metadata": {}})
    assert (promise.title, promise.minutes, promise.able, promise.is_optional) == ("without a title", 0, (), False)


# ── the commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [["progress"], ["check"]])
def test_the_command(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    run(course / LESSON)
    monkeypatch.chdir(course / "work" / "lessons")
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.endswith("Next: Begin exercise 02: write naive_all_reduce.\n")
    assert max(map(len, said.splitlines())) <= 120
    assert f"[All-reduce](lessons/lesson_{NAME}.ipynb)" in (course / PAGE).read_text()
    assert read_kept(course, "notebooks.json")["notebooks"].keys() == {f"lessons/lesson_{NAME}.ipynb"}


def test_in_a_folder_without_a_course(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setattr(where_am_i, "find_course", lambda start: course)  # as where distlib was installed from one
    assert main(["progress"]) == 0
    assert capsys.readouterr().err == f"There is no course here. This is the one in {course}:\n\n"
    monkeypatch.setattr(where_am_i, "find_course", lambda start: None)
    assert main(["progress"]) == 1
    assert "Go to the course's folder first." in capsys.readouterr().err
    assert list((tmp_path / "empty").iterdir()) == []


def test_links_of_the_page_lead_to_notebooks(course: Path) -> None:
    write_page(course, read_course(course))
    links = re.findall(r"\]\(([^)]+)\)", (course / PAGE).read_text())
    assert len(links) == len(LESSONS) + 1
    assert [link for link in links if not (course / "work" / link).is_file()] == []
