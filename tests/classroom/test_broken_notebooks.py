"""Ways to break a notebook: what receipt, check and feedback say of each. What gets 0 visibly is never "answered"."""

from __future__ import annotations

import copy
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.preprocessors import ComputeChecksums
from traitlets.config import Config

from distlib.authoring.notebook import notebook_from_text
from distlib.classroom.grader.check_message import split_message
from distlib.classroom.grader.mistakes import cause_of
from distlib.classroom.grader.source import Source, make_source
from distlib.classroom.grader.submission import read_submission
from distlib.classroom.my_course.last_check import keep_check, read_check
from distlib.classroom.register.term_dates import DUE_DATES, TermDates, text_of
from distlib.classroom.self_check.check_saved import check_saved
from distlib.classroom.self_check.results import FAILS, PASSES, FunctionRow, Result, Results, as_graded
from distlib.classroom.self_check.validate import keep_result, with_causes, with_its_name
from distlib.classroom.uploads.graded_with import GRADED_WITH
from distlib.classroom.uploads.hand_in import Declined, hand_in_notebook
from distlib.classroom.uploads.receipt import Receipt
from distlib.python_text import why_not_python
from tests.tools.broken_answers import BY_TEXT, NEWER, RIGHT

NAME = "01_many"
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
SET_UP = '# %% readonly="setup"\nunit = 1\n\n'
EACH = '''
# %% solution="NAME"
def NAME(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %% test="NAME_visible" points=1
answer = NAME(2)
assert answer == 4 * unit, f"NAME(2) is wrong: {answer}"

# %% test="NAME_hidden" points=1
# Hidden tests of NAME.
### BEGIN HIDDEN TESTS
### What this tests: a large number.
assert NAME(3) == 6, "NAME is wrong for a large number"
### END HIDDEN TESTS
'''


def named(words: list[str]) -> dict[str, str]:
    """A function's name for each way."""
    return {word: f"double_{number}" for number, word in enumerate(words)}


def exercise_of(functions: list[str]) -> Source:
    text = SET_UP + "".join(EACH.replace("NAME", function) for function in functions)
    return make_source(nbformat.reads(notebook_from_text(text, "many.py", graded=True), as_version=4), Config())


def released(source: Source) -> NotebookNode:
    """What students get."""
    notebook = copy.deepcopy(source.notebook)
    for cell, text in zip(notebook.cells, source.released, strict=True):
        cell.source = text
    notebook, _ = ComputeChecksums().preprocess(notebook, {})
    return notebook


class StudentsCourse:
    """A course in a folder, as a student has it, with an exercise of some functions, all of them right."""

    def __init__(self, root: Path, functions: list[str]) -> None:
        self.root, self.functions = root, functions
        self.path = root / "work" / "exercises" / NAME / f"{NAME}.ipynb"
        given = root / "exercises" / NAME / f"{NAME}.ipynb"
        for folder in (self.path.parent, given.parent, root / "distlib"):
            folder.mkdir(parents=True)
        (root / "distlib" / "__init__.py").touch()
        self.notebook = released(exercise_of(functions))
        nbformat.write(self.notebook, given)
        for function in functions:
            self.cell(function).source = RIGHT.replace("NAME", function)

    def cell(self, name: str) -> NotebookNode:
        return next(cell for cell in self.notebook.cells if cell.id == name)

    def hand_in(self) -> Receipt:
        self.path.write_text(json.dumps(self.notebook))
        return hand_in_notebook(NAME, start=self.path.parent, student="ada", sure=True, again=True, ran=())

    def check(self) -> Results:
        self.path.write_text(json.dumps(self.notebook))
        return check_saved(NAME, start=self.path.parent)

    def keep_check(self, *failing: str) -> None:
        """As after a check of what is written now."""
        rows = [
            FunctionRow(each, Result(FAILS if each in failing else PASSES), Result(PASSES), self.cell(each).source)
            for each in self.functions
        ]
        keep_check(self.root, Results(NAME, "", rows, []))


@pytest.fixture
def course(tmp_path: Path) -> StudentsCourse:
    return StudentsCourse(tmp_path, ["first", "second"])


def not_answered(receipt: Receipt) -> dict[str, str]:
    """What the receipt says of functions that it does not call answered."""
    rows = dict(text.split(": ", 1) for word, text in receipt.rows() if word == "look at")
    answered = dict(receipt.rows())["answered"]
    assert answered.endswith(f"({len(receipt.answers) - len(rows)} of {len(receipt.answers)})")
    return rows


# ── the text of a function's cell ────────────────────────────────────────────────────────────────────────────────────


def test_what_the_text_of_a_cell_shows_is_named_in_the_receipt(tmp_path: Path) -> None:
    names = named(list(BY_TEXT))
    course = StudentsCourse(tmp_path, list(names.values()))
    for way, function in names.items():
        course.cell(function).source = BY_TEXT[way].source.replace("NAME", function)
    told = not_answered(course.hand_in())
    wrong = {
        way: told.get(function, "")
        for way, function in names.items()
        if BY_TEXT[way].receipt.replace("NAME", function) not in told.get(function, "")
        or bool(BY_TEXT[way].receipt) != (function in told)
    }
    assert wrong == {}
    assert len(BY_TEXT) >= 40


@pytest.mark.parametrize("way", NEWER)
def test_syntax_of_a_newer_python_is_named_with_both_versions(
    way: str, course: StudentsCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether this Python reads it or not: the one that grades does not."""
    source, since = NEWER[way]
    course.cell("first").source = source.replace("NAME", "first")
    (course.root / "graded_with.txt").write_text("Python 3.11.7\n")
    told = not_answered(course.hand_in())
    assert told.keys() == {"first"}
    assert (
        "Python 3.11" in told["first"] and f"here is Python {HERE}" in told["first"] and " line " in f" {told['first']}"
    )
    if why_not_python(source):
        assert f"(Python {since})?" in told["first"]
    else:
        assert told["first"].startswith("not Python 3.11, which grades it: ")


def test_who_grades_is_not_known_without_a_release(course: StudentsCourse) -> None:
    course.cell("first").source = "def first(x) return x"
    assert "which one grades it is not known here" in not_answered(course.hand_in())["first"]
    (course.root / "graded_with.txt").write_text("torn")
    assert "which one grades it is not known here" in not_answered(course.hand_in())["first"]
    (course.root / "graded_with.txt").write_text("3.13")
    assert f"(here is Python {HERE}; 3.13 grades it)" in not_answered(course.hand_in())["first"]


# ── other cells, and the last check ──────────────────────────────────────────────────────────────────────────────────


def test_a_test_cell_that_is_not_as_it_was_given_out(course: StudentsCourse) -> None:
    course.notebook.cells.remove(course.cell("first_visible"))
    course.cell("second_visible").source = "pass"
    told = not_answered(course.hand_in())
    assert told["first"] == "written, but its test cell first_visible was deleted: nothing here has tested it"
    assert told["second"].startswith("written, but its test cell second_visible was changed")


@pytest.mark.parametrize(("kind", "words"), [("markdown", "was made text (Markdown)"), ("raw", "was made raw text")])
def test_a_cell_that_was_made_text(kind: str, words: str, course: StudentsCourse) -> None:
    course.cell("first_hidden").cell_type = kind
    course.cell("second").cell_type = kind
    told = not_answered(course.hand_in())
    assert told["first"].startswith(f"written, but its test cell first_hidden {words}")
    assert told["second"] == "its cell was made text: it does not run here"


@pytest.mark.parametrize("way", ["deleted", "changed"])
def test_a_given_cell(way: str, course: StudentsCourse) -> None:
    if way == "deleted":
        course.notebook.cells.remove(course.cell("setup"))
    else:
        course.cell("setup").source = "unit = 2"
    receipt = course.hand_in()
    assert not_answered(receipt) == {}
    assert dict(receipt.rows())["given"] == f"1 of 5 cells of the exercise: setup was {way}; graded as given out"


def test_a_cell_that_is_gone(course: StudentsCourse) -> None:
    course.notebook.cells.remove(course.cell("first"))
    assert not_answered(course.hand_in()) == {"first": "not answered: its cell is missing"}


def test_cells_that_lost_their_marks_are_known_by_their_text(course: StudentsCourse) -> None:
    for cell in course.notebook.cells:
        cell.metadata.pop("nbgrader", None)
        cell.id = f"new-{cell.id}"
    assert not_answered(course.hand_in()) == {}


def test_a_function_that_failed_in_its_last_check(course: StudentsCourse) -> None:
    course.keep_check("first")
    told = not_answered(course.hand_in())
    assert told.keys() == {"first"}
    assert told["first"].startswith("failed in your last check, at ") and told["first"].endswith("is the same as then")
    course.cell("first").source += "  # mended"
    receipt = course.hand_in()
    assert not_answered(receipt) == {}
    said = dict(receipt.rows())["checked"]
    assert re.fullmatch(
        rf"at [\d:]+: second passed; first changed since; distlib check {NAME} tells what passes", said
    ), said


def test_five_lines_say_what_it_takes(course: StudentsCourse) -> None:
    due = datetime.now(UTC) + timedelta(days=2)
    (course.root / DUE_DATES).write_text(text_of(TermDates({NAME: due})))
    (course.root / GRADED_WITH).write_text("Python 3.99\n")
    rows = dict(course.hand_in().rows())
    assert list(rows) == ["time", "due", "notebook", "SHA-256", "answered", "given", "checked", "Python"]
    assert rows["answered"] == "first, second (2 of 2)" and rows["due"].endswith("after this")
    assert rows["given"] == "all 5 cells of the exercise are there, unchanged"
    assert rows["checked"] == f"never; distlib check {NAME} tells what passes"
    assert rows["Python"] == f"{HERE} here, 3.99 for grading"
    course.keep_check()
    (course.root / GRADED_WITH).write_text(f"Python {HERE}\n")
    rows = dict(course.hand_in().rows())
    assert re.fullmatch(r"at [\d:]+: first, second passed", rows["checked"])
    assert rows["Python"] == f"{HERE}, here and for grading"


def test_a_check_is_offered_for_what_was_not_checked_as_it_stands(course: StudentsCourse) -> None:
    course.keep_check()
    course.cell("second").source = "def second(x):\n    return x + 2"
    course.path.write_text(json.dumps(course.notebook))
    asked: list[str] = []
    answers = iter(["y", "n", "n", "y", "y"])

    def ask(question: str) -> str:
        asked.append(question)
        return next(answers)

    def hand_in(failing: str) -> Receipt:
        check = lambda name, path: course.keep_check(failing)  # noqa: E731
        return hand_in_notebook(NAME, start=course.path.parent, student="ada", ran=(), ask=ask, check=check)

    with pytest.raises(Declined, match=f"Nothing was handed in. To see it again: distlib check {NAME}"):
        hand_in("second")
    assert asked == [
        "second: not checked as it stands. Run the tests now? [y/N] ",
        "second: not right yet. Hand it in as it is? [y/N] ",
    ]
    course.keep_check()
    course.cell("second").source += "\n"
    assert not_answered(hand_in("second")) == {} and len(asked) == 2, "all is checked as it stands"
    course.cell("first").source = "def first(x):\n    return x + x + 1 - 1"
    course.path.write_text(json.dumps(course.notebook))
    assert "first changed since" in dict(hand_in("first").rows())["checked"] and len(asked) == 3
    course.cell("first").source = "def first(x):\n    return x + x + 0"
    course.path.write_text(json.dumps(course.notebook))
    assert not_answered(hand_in("first")).keys() == {"first"} and len(asked) == 5


def test_a_check_of_an_earlier_version_of_the_course_counts(course: StudentsCourse) -> None:
    course.keep_check("first")
    file = course.root / "work" / "progress" / "checks" / f"{NAME}.json"
    kept = json.loads(file.read_text())
    del kept["cells"]
    file.write_text(json.dumps(kept))
    assert not_answered(course.hand_in()).keys() == {"first"}


def test_cells_of_ones_own_are_remarks(course: StudentsCourse) -> None:
    for number, source in enumerate(["while True:\n    pass", "def helper(:", "%%bash\nls", "%%time\nx = 1"]):
        course.notebook.cells.append(nbformat.v4.new_code_cell(source, id=f"own-{number}"))
    loop, broken = course.hand_in().remarks
    assert loop.endswith(
        "line 1 of its cell never ends: while True without break or return; in grading it is left out."
    )
    assert broken.endswith("does not run: line 1 is not Python, invalid syntax.")


# ── what runs ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.timeout(1_000)
def test_check_and_feedback_name_the_same(tmp_path: Path) -> None:
    """Of all that breaks a cell; but for loops inside of a function, each of which takes a check's whole time."""
    names = named([way for way in BY_TEXT if way not in ("loop inside", "loop in a loop")])
    course = StudentsCourse(tmp_path, list(names.values()))
    for way, function in names.items():
        course.cell(function).source = BY_TEXT[way].source.replace("NAME", function)
    assert wrongly_told(names, course.check()) == {}


def test_a_few_ways_as_check_and_feedback_tell_them(tmp_path: Path) -> None:
    """The same with one of each kind."""
    names = named(["no colon", "other name", "a number", "empty", "raises before", "raises", "magic"])
    course = StudentsCourse(tmp_path, list(names.values()))
    for way, function in names.items():
        course.cell(function).source = BY_TEXT[way].source.replace("NAME", function)
    course.notebook.metadata["language_info"] = {"name": "python", "version": "3.99.1"}
    results = course.check()
    assert wrongly_told(names, results) == {}
    first, raises = (re.sub(" +", " ", results.rows[number].visible.message) for number in (0, 5))
    assert f"Python {HERE} can't read cell " in first and "was written with Python 3.99." in " ".join(first.split())
    assert "----> 1 def double_0(x)\n" in first and "----> 2 return {}[x]" in raises


def wrongly_told(names: dict[str, str], results: Results) -> dict[str, str]:
    """The ways of which check or feedback say something else than they should."""
    messages = {row.function: " ".join(f"{row.visible.state} {row.visible.message}".split()) for row in results.rows}
    words = {way: BY_TEXT[way].judged.replace("NAME", function) for way, function in names.items()}
    return {
        way: messages[function]
        for way, function in names.items()
        if (words[way] or "passes") not in messages[function] and "not written yet" not in messages[function]
    }


def test_a_class_report_tells_syntax_errors_apart(tmp_path: Path) -> None:
    names = named(["no colon", "quote", "curly quotes", "other name"])
    course = StudentsCourse(tmp_path, list(names.values()))
    for way, function in names.items():
        course.cell(function).source = BY_TEXT[way].source.replace("NAME", function)
    told = [split_message(row.visible.message) for row in course.check().rows]
    assert len({cause_of(each) for each in told}) == 4
    again = replace(told[0], seen=told[0].seen.replace("line 1", "line 7").replace("double_0", "triple"))
    assert cause_of(again) == cause_of(told[0])


def test_what_the_python_that_grades_can_not_read_fails_though_it_passes_here() -> None:
    source = "def f():\n    try:\n        pass\n    except* ValueError:\n        pass"
    row = FunctionRow("f", Result(PASSES), Result(PASSES), source)
    assert as_graded(row, None) is row and as_graded(row, (3, 11)) is row and as_graded(row, (3, 99)) is row
    told = as_graded(row, (3, 10)).failure[1]
    assert told.startswith("f: Python 3.10, which grades it, can't read line ") and f"with Python {HERE}." in told


def test_validate_says_what_the_text_shows_before_what_a_test_says(course: StudentsCourse) -> None:
    course.cell("first").source = "def first(x)\n    return <x>"
    course.path.write_text(json.dumps(course.notebook))
    failed = [
        {"source": course.cell(f"{name}_visible").source.strip(), "error": "<b>no</b>", "raw_error": "no"}
        for name in ("first", "second")
    ]
    said, as_it_was = with_causes({"failed": failed}, course.path)["failed"]
    assert said["raw_error"].startswith("first: not Python: line 1 of its cell (code cell 2), expected ':'")
    assert said["raw_error"].endswith("\n\nno") and said["error"].endswith("\n\n<b>no</b>")
    assert "&#x27;:&#x27;" in said["error"] and as_it_was == failed[1]
    assert with_causes({"changed": []}, course.path) == {"changed": []}


def test_what_the_button_validate_finds_is_kept_and_named(course: StudentsCourse) -> None:
    course.path.write_text(json.dumps(course.notebook))

    def cell(name: str) -> dict[str, str]:
        return {"source": course.cell(name).source.strip(), "error": "no", "raw_error": "no"}

    keep_result({"failed": [cell("first_visible")]}, course.path)
    last, said = read_check(course.root, NAME)
    assert said == "" and last.states == {"first": FAILS, "second": PASSES}
    assert last.verdict("second", course.cell("second").source) == PASSES
    keep_result({"changed": [cell("first_visible")]}, course.path)
    assert read_check(course.root, NAME)[0] == last, "nothing was said of the functions"
    (course.root / "solutions").mkdir()
    keep_result({}, course.path)
    assert read_check(course.root, NAME)[0].states["first"] == FAILS, "the same code has failed, perhaps a hidden test"
    (course.root / "solutions").rmdir()
    keep_result({}, course.path)
    assert read_check(course.root, NAME)[0].states == {"first": PASSES, "second": PASSES}
    named, other = with_its_name({"failed": [cell("first_visible"), cell("second_visible")]}, course.path)["failed"]
    assert re.fullmatch(rf"{NAME}.ipynb, as it was saved at [\d:]+:\n\nno", named["error"]) and other["error"] == "no"
    assert with_its_name({}, course.path) == {}


def test_a_notebook_says_with_which_python_it_was_written(tmp_path: Path) -> None:
    for version, read in (("3.14.0rc2", "3.14"), ("x", ""), (7, ""), (None, "")):
        path = tmp_path / "it.ipynb"
        book = {"cells": [{"cell_type": "code", "source": "1"}], "metadata": {"language_info": {"version": version}}}
        path.write_text(json.dumps(book))
        assert read_submission(path).python == read
