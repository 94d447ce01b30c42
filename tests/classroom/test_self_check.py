"""`distlib check` and the Check cell: what a student is told about a finished, a half-finished, a broken notebook."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from distlib.authoring.lesson_run import kernel_without_ports
from distlib.classroom import check_exercise, hand_in
from distlib.classroom.grader.definitions import several
from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.self_check.check_saved import check_saved
from distlib.classroom.self_check.exercise import find_exercise
from distlib.classroom.self_check.results import (
    ABSENT,
    FAILS,
    NOT_WRITTEN,
    PASSES,
    WAITS,
    ExerciseError,
    FunctionRow,
    Result,
    Results,
    row_of,
)
from distlib.classroom.self_check.running import judged
from distlib.classroom.self_check.table import Table
from distlib.cli import main
from tests.answer_files import ASSIGNMENTS

NAME = "02_all_reduce"
AVERAGES = """
def naive_all_reduce(comm, tensor):
    if comm.rank != 0:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        tensor += incoming
    tensor /= comm.world_size
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)
""".strip()
IN_FLOAT32 = """
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        incoming = torch.zeros(len(chunks[(rank - 1 - step) % size]))
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        chunks[(rank - 1 - step) % size].copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
""".strip()


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """The cell that nbgrader knows by a name."""
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def solutions_of(root: Path) -> dict[str, str]:
    notebook = nbformat.read(root / "solutions" / NAME / f"{NAME}.ipynb", as_version=4)
    marked = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return {cell.metadata.nbgrader.grade_id: cell.source for cell in marked}


@pytest.fixture
def course(root: Path, tmp_path: Path) -> Path:
    """A folder with the exercise, and the instructor's notebook beside it."""
    for folder in ("exercises", "solutions"):
        (tmp_path / folder / NAME).mkdir(parents=True)
        shutil.copy(root / folder / NAME / f"{NAME}.ipynb", tmp_path / folder / NAME)
    return tmp_path


def write(course: Path, answers: dict[str, str]) -> Path:
    """Answer some functions in the exercise."""
    path = course / "exercises" / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for name, text in answers.items():
        cell_of(notebook, name).source = text
    nbformat.write(notebook, path)
    return path


def half_finished(root: Path) -> dict[str, str]:
    """One function wrong, one right, one right in the visible cases only, one not written."""
    right = solutions_of(root)["ring_reduce_scatter"]
    return {"naive_all_reduce": AVERAGES, "ring_reduce_scatter": right, "ring_all_gather": IN_FLOAT32}


def states(results: Results) -> list[tuple[str, str]]:
    return [(row.visible.state, row.hidden.state) for row in results.rows]


# ── the saved notebook ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_a_half_finished_notebook(root: Path, course: Path) -> None:
    write(course, half_finished(root))
    results = check_saved(NAME, start=course)
    assert states(results) == [(FAILS, WAITS), (PASSES, PASSES), (PASSES, FAILS), (NOT_WRITTEN, WAITS)]
    assert "Usual cause: this is the average." in " ".join(results.rows[0].failure[1].split())
    assert "Make the buffer like what comes" in " ".join(results.rows[2].failure[1].split())
    assert [row.next for row in results.rows] == ["read below", "done", "read below", "write it"]
    assert not results.passes


def test_a_finished_notebook_passes_and_the_command_says_so(
    root: Path, course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(course, solutions_of(root))
    monkeypatch.chdir(course / "exercises")
    assert main(["check", NAME]) == 0
    output = capsys.readouterr()
    assert output.out.count("✓ passes      ✓ passes     done") == 4
    assert f"All 4 functions pass.\nLooked at {NAME}/{NAME}.ipynb as it was saved at " in output.out
    assert output.err == ""


@pytest.mark.parametrize("folders", [("exercises",), ("exercises", "solutions")])
def test_an_answer_in_words_is_named(root: Path, tmp_path: Path, folders: tuple[str, ...]) -> None:
    capstone = "19b_budget"
    for folder in folders:
        (tmp_path / folder / capstone).mkdir(parents=True)
        shutil.copy(root / folder / capstone / f"{capstone}.ipynb", tmp_path / folder / capstone)
    stub = "report: marked by hand, 10 of 20 points; not answered: still the stub."
    assert find_exercise(capstone, start=tmp_path).by_hand == [stub]
    path = tmp_path / "exercises" / capstone / f"{capstone}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell_of(notebook, "report").source = "The plan: few, large messages."
    nbformat.write(notebook, path)
    by_hand = find_exercise(capstone, start=tmp_path).by_hand
    assert by_hand == ["report: marked by hand, 10 of 20 points."]
    row = row_of("train", Result(PASSES), Result(PASSES))
    table = Table(Results(capstone, "", [row], [], by_hand))
    assert by_hand[0] in str(table).splitlines() and f"<p>{by_hand[0]}</p>" in table._repr_html_()


@pytest.mark.slow
def test_without_the_instructors_notebook_the_visible_tests_run(root: Path, course: Path) -> None:
    shutil.rmtree(course / "solutions")
    path = write(course, half_finished(root))
    notebook = nbformat.read(path, as_version=4)
    demonstration = next(cell for cell in notebook.cells if "def try_naive" in cell.source)
    demonstration.source += "\n\ndef copied(tensor): return tensor.clone()\n\nraise ValueError('a demonstration ran')"
    notebook.cells.insert(notebook.cells.index(demonstration), new_code_cell("answer = 42"))
    cell_of(notebook, "ring_all_reduce").source = (
        "def ring_all_reduce(comm, tensor):\n    ring_reduce_scatter(comm, tensor)\n    ring_all_gather(comm, tensor)\n"
        "    tensor.copy_(copied(tensor) + answer - 42)"
    )
    nbformat.write(notebook, path)
    results = check_saved(NAME, path, start=course)
    assert states(results) == [(FAILS, WAITS), *[(PASSES, ABSENT)] * 3]
    assert results.rows[1].next == "done here"
    later, stuck, command = results.notes
    assert later == "Hidden tests run when the work is graded: with other sizes, dtypes and layouts."
    assert stuck.startswith("Stuck? Three hints can be opened below the cell of naive_all_reduce.")
    assert command == "In a terminal: distlib hint naive_all_reduce"
    assert results.summary == "3 of 4 functions pass."


@pytest.mark.parametrize("with_solutions", [True, False])
@pytest.mark.parametrize(("place", "counts"), [(0, "mine"), (1, "copy"), (None, "mine")])
def test_of_two_definitions_the_one_runs_that_counts_when_it_is_graded(
    with_solutions: bool, place: int | None, counts: str, course: Path
) -> None:
    if not with_solutions:
        shutil.rmtree(course / "solutions")
    text = "def ring_all_gather(comm, tensor):\n    return"
    path = write(course, {"ring_all_gather": f"{text} 'mine'"})
    notebook = nbformat.read(path, as_version=4)
    copy = nbformat.from_dict({**cell_of(notebook, "ring_all_gather"), "source": f"{text} 'copy'", "id": "copied"})
    index = notebook.cells.index(cell_of(notebook, "ring_all_gather"))
    notebook.cells.insert(len(notebook.cells) if place is None else index + place, copy)
    nbformat.write(notebook, path)
    exercise = find_exercise(NAME, start=course)
    assert [remark.split(" is ")[0] for remark in exercise.remarks] == ["ring_all_gather"]
    assert len([cell for cell in exercise.notebook.cells if cell.source.startswith(text)]) == 2
    seen = []
    for cell in exercise.notebook.cells:
        seen += [cell.source] if cell.source.startswith(text) else []
        if cell.metadata.get("nbgrader", {}).get("grade_id", "").startswith("ring_all_gather_"):
            assert seen[-1] == f"{text} '{counts}'"
    assert cell_of(exercise.notebook, "ring_all_gather").source == f"{text} '{counts}'"


def test_a_cell_that_stops_or_does_not_end_is_named(course: Path) -> None:
    answers = {
        "naive_all_reduce": "def naive_all_reduce(comm, tensor)\n    pass",
        "ring_all_gather": "print('here')\nraise SystemExit\ndef ring_all_gather(comm, tensor): pass",
    }
    write(course, answers)
    results = check_saved(NAME, start=course)
    assert states(results)[0] == (FAILS, WAITS)
    assert results.rows[0].failure[1].startswith("naive_all_reduce: Python 3.")
    assert "can't read cell 2, line 1: expected ':'.\n" in results.rows[0].failure[1]
    assert results.rows[2].failure[1].startswith("the cell of ring_all_gather stops: SystemExit")


def test_the_command_fails_where_something_does_not_pass(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(course, {"naive_all_reduce": AVERAGES})
    monkeypatch.chdir(course.parent)
    assert main(["check", NAME, "--notebook", str(path)]) == 1
    output = capsys.readouterr().out
    assert "naive_all_reduce     ✗ fails            – not yet    read below" in output
    assert "ring_all_reduce      ○ not written yet  – not yet    write it" in output
    assert "\nnaive_all_reduce, visible test\n  naive_all_reduce on 2 ranks" in output
    assert "0 of 4 functions pass." in output


def test_the_number_is_enough_and_the_students_copy_comes_first(course: Path) -> None:
    released = course / "exercises" / NAME / f"{NAME}.ipynb"
    assert find_exercise("02", start=course).path == released.resolve()
    own = course / "work" / "exercises" / NAME / released.name
    (course / "work" / "lessons").mkdir(parents=True)
    shutil.copytree(released.parent, own.parent)
    for start in (course, course / "work", course / "work" / "lessons", own.parent):
        exercise = find_exercise("2", start=start)
        assert (exercise.name, exercise.path) == (NAME, own.resolve())
        assert "hidden" in exercise.tests["ring_all_reduce"]


# ── what is no exercise ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_that_is_no_exercise(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(course)
    assert main(["check", "03"]) == 1
    assert capsys.readouterr().err == (
        "there is no notebook 03.ipynb here or in work/exercises/03/. The exercises are 02_all_reduce.\n"
    )


@pytest.mark.parametrize("command", ["check", "hand-in"])
@pytest.mark.parametrize(("name", "lesson"), [("00", "00_start_here"), ("0", "00_start_here"), ("03b", "03b_networks")])
def test_a_lesson_without_an_exercise(
    course: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    command: str,
    name: str,
    lesson: str,
) -> None:
    for other in ("00_start_here", "02_all_reduce", "03b_networks"):
        (course / "course").mkdir(exist_ok=True)
        (course / "course" / f"{other}.ipynb").write_text("{}")
    (course / "work" / "lessons").mkdir(parents=True)
    monkeypatch.chdir(course / "work" / "lessons")
    assert main([command, name]) == 1
    assert capsys.readouterr().err.endswith(f"lesson {lesson} has no exercise. The exercises are 02_all_reduce.\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a notebook: it is only the beginning of one"),
        ("", "empty"),
        ('{"cells": [{"cell_type": "code", "source": "1 + 1"}]}', "has no functions with tests"),
        (None, "work.ipynb can't be read: No such file"),
    ],
)
def test_a_file_that_is_no_exercise(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "work.ipynb"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ExerciseError, match=words):
        find_exercise(NAME, path=path, start=tmp_path)


# ── the cell ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_in_a_notebook(course: Path, cells: list[str]) -> list[NotebookNode]:
    """The outputs of the last cell, run in the exercise's folder."""
    notebook = nbformat.v4.new_notebook(cells=[new_code_cell(text) for text in cells])
    where = {"metadata": {"path": str(course / "exercises" / NAME)}}
    with kernel_without_ports() as settings:
        NotebookClient(notebook, timeout=200, resources=where, **settings).execute()
    return list(notebook.cells[-1].outputs)


@pytest.mark.slow
def test_the_cell_looks_at_the_functions_as_they_are_defined(root: Path, course: Path) -> None:
    answers = half_finished(root)  # in the kernel; in the file nothing is written
    cells = ["import torch\nfrom distlib import Communicator", *answers.values(), CHECK]
    (output,) = run_in_a_notebook(course, cells)
    text, page = " ".join(output.data["text/plain"].split()), " ".join(output.data["text/html"].split())
    assert "naive_all_reduce ✗ fails – not yet read below" in text
    assert "ring_reduce_scatter ✓ passes ✓ passes done" in text
    assert "ring_all_gather ✓ passes ✗ fails read below" in text
    assert "ring_all_gather, hidden test (the visible one passes)" in text
    assert "ring_all_reduce – not run yet – not yet run its cell" in text
    assert "Looked at the functions as they are defined in this notebook now." in text
    assert page.count('<th scope="row"') == 4 and "Usual cause: this is the average." in page


def test_of_two_cells_the_one_that_was_judged_is_named() -> None:
    cells = [HandedCell("code", f"def ring():\n    return {number}") for number in (1, 2)]
    (found,) = several(cells, ["ring"])
    assert found.advice.startswith("ring is defined in two cells, code cells 1 and 2 from the top. Cell 2 counts: ")
    assert found.advice.endswith(" Delete what you don't want.")
    ran = [cells[1].source, cells[0].source]
    assert judged(found, cells, ran) == "Judged here: cell 1, the last one that ran."
    assert judged(found, cells, [*ran, "x = 1", "def ring(): pass"]) == "Judged here: the one that ran last."


CHECK = f'from distlib.classroom import check_exercise\n\ncheck_exercise("{NAME}")'


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_exercise_has_the_cell_and_graders_leave_it_out(root: Path, name: str) -> None:
    notebook = nbformat.read(root / "exercises" / name / f"{name}.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if f'check_exercise("{name}")' in cell.source]
    assert cell.cell_type == "code" and "nbgrader" not in cell.metadata
    assert cell.metadata.tags == ["skip-execution"]  # nbclient, and so nbgrader, does not run it
    assert find_exercise(name, start=root).notebook.cells[notebook.cells.index(cell)].metadata.get("distlib") is None


@pytest.mark.parametrize("call", [check_exercise, hand_in])
def test_a_jupyter_without_nbgrader_says_where_else(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[str], object]
) -> None:
    monkeypatch.setitem(sys.modules, "nbgrader", None)
    with pytest.raises(ImportError, match="nbgrader, which is not installed here.*--notebook FILE"):
        call(NAME)


# ── what it waits for ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("module", "absent"), [("check_saved", "torch"), ("exercise", "nbgrader")])
def test_what_takes_seconds_to_import_comes_late(module: str, absent: str) -> None:
    """torch when the sandbox imports it, too; nbgrader where there are hidden tests."""
    program = f"import sys, distlib.classroom.self_check.{module}; print({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_shows_what_a_function_printed_as_text() -> None:
    row = row_of("f", Result(FAILS, "wrong <b>here</b>\n  expected 1"), None)
    page = Table(Results("01_x", "Looked at it.", [row], ["cell 2 <i>ended</i>"]))._repr_html_()
    assert "wrong &lt;b&gt;here&lt;/b&gt;\n  expected 1" in page
    assert "cell 2 &lt;i&gt;ended" in page
    assert "<b>" not in page and "<i>" not in page


def test_the_table_fits_a_terminal() -> None:
    states = [Result(FAILS, "no"), Result(NOT_WRITTEN), Result(PASSES)]
    rows = [row_of("halving_doubling_all_reduce", state, None) for state in states]
    assert max(map(len, str(Table(Results("03_x", "", rows, []))).splitlines())) <= 80


def test_the_summary_counts() -> None:
    right, wrong = FunctionRow("f", Result(PASSES), Result(PASSES)), row_of("g", Result(FAILS, "no"), None)
    assert Results("x", "", [right], []).summary == "The function passes."
    assert Results("x", "", [right, right], []).summary == "Both functions pass."
    assert Results("x", "", [right, wrong], []).summary == "1 of 2 functions passes."
    assert Results("x", "", [wrong, wrong], []).summary == "0 of 2 functions pass."
