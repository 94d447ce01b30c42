"""Whatever stands in a notebook, reading it is refused or done in seconds of the processor, from file to feedback."""

from __future__ import annotations

import json
import logging
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from distlib.classroom.grader import examine as examine_module, feedback_page as feedback_page_module
from distlib.classroom.grader.alike import pieces
from distlib.classroom.grader.examine import Examinee, Judge, examine, examine_all
from distlib.classroom.grader.feedback import harmless_text
from distlib.classroom.grader.feedback_page import FeedbackPage
from distlib.classroom.grader.source import Source
from distlib.judge.remote.introspection_remarks import reaches_inside
from distlib.judge.remote.judge import _all_plain
from distlib.judge.remote.student_cells import RankCell
from distlib.reading_process import EndedEarly, read_apart

SECONDS = 12.0  # of the processor, for one reading of a notebook; the longest takes 3
LINES = {
    "help": "a?\n",
    "decorators": "@a\n",
    "decorators with brackets": "@a(\n",
    "open brackets": "(",
    "open quotes": '"""\n',
    "texts in texts": 'f"{',
    "backslashes": "\\\n",
    "blanks": " \n",
    "unary signs": "-",
    "nots": "not ",
    "lambdas": "lambda:",
    "conditions": "a if b else ",
    "attributes": "a.b",
    "assignments": "a=",
    "stubs": "def f():\n raise NotImplementedError()\n",
    "definitions of nothing": "naive_all_reduce:",
    "prompts": "In [1]: a\n",
    "other prompts": ">>> a\n",
    "times": "%%time\n",
    "form feeds": "\f",
    "nothing": "\0",
    "accents": "é+",
    "links": "](",
    "links with blanks": "](  ",
    "pictures": "![a](",
    "references": "]: ",
    "tags": "<a ",
}
MAGICS = {
    "more help": "??a\n",
    "help on a module": "a.b.c?\n",
    "automatic calls": "/f x\n",
    "automatic quotes": ",f a b\n",
    "one quote": ";f a b\n",
    "two names from a shell": "a, b = !ls\n",
    "a name from a magic": "a = %time x\n",
    "magics": "%time x\n",
    "shell lines": "!ls\n",
}


def reads(text: str) -> None:
    """All that is read of a cell before its feedback is formatted."""
    (plain,) = _all_plain([text])
    reaches_inside([RankCell(1, plain)])
    harmless_text(text)
    pieces(text)


def notebook_file(text: str) -> str:
    """A notebook with a text in an answer, in cells of the student's own, and as names of them."""
    answer = {"grade_id": "f", "solution": True, "grade": False, "locked": False, "schema_version": 3}
    cells = [
        {"cell_type": "code", "id": text[:60], "source": text, "metadata": {"nbgrader": answer}},
        {"cell_type": "code", "source": text, "metadata": {}},
        {"cell_type": "markdown", "source": text, "metadata": {"nbgrader": {**answer, "grade_id": text[:200]}}},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def seconds_of(texts: dict[str, str], folder: Path) -> dict[str, float]:
    """What reading each takes of the processor, in a notebook that is handed in."""
    found = {}
    for name, text in texts.items():
        path = folder / "x" / "x.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(notebook_file(text))
        start = time.process_time()
        examine(Examinee(path.parent, "x", source(), ""), echo)
        reads(text)
        found[name] = time.process_time() - start
    return found


def source() -> Source:
    mark = {"grade_id": "f", "solution": True, "grade": False, "locked": False, "schema_version": 3}
    return Source(new_notebook(cells=[new_code_cell("def f(): pass", metadata={"nbgrader": mark})]), ["def f(): pass"])


def echo(notebook: NotebookNode, seed: str = "", **options: Any) -> SimpleNamespace:
    return SimpleNamespace(notebook=notebook, remarks=[])


def seconds_apart(lines: dict[str, str], folder: Path) -> dict[str, float]:
    """The same, in a process that is ended if one of them is an hour's work; then each has its own."""
    texts = {name: line * (20_000 // len(line)) for name, line in lines.items()}
    try:
        return read_apart(seconds_of, texts, folder, seconds=150, memory=3 << 30)
    except EndedEarly:
        return {name: _alone(name, text, folder) for name, text in texts.items()}


def _alone(name: str, text: str, folder: Path) -> float:
    try:
        return read_apart(seconds_of, {name: text}, folder, seconds=2 * SECONDS, memory=3 << 30)[name]
    except EndedEarly:
        return float("inf")


SOME = dict([*LINES.items()][::5])


@pytest.mark.parametrize(
    "lines",
    [SOME, *(pytest.param(each, marks=pytest.mark.slow) for each in (LINES, MAGICS))],
    ids=["some", "Python", "magics"],
)
def test_a_notebook_takes_seconds_to_read(lines: dict[str, str], tmp_path: Path) -> None:
    assert {name: taken for name, taken in seconds_apart(lines, tmp_path).items() if taken > SECONDS} == {}


@pytest.mark.slow
def test_made_up_notebooks_take_seconds_to_read(tmp_path: Path) -> None:
    draw = random.Random(43)
    signs = [
        *LINES.values(),
        *MAGICS.values(),
        *"()[]{}'\"`\\\n \t#@%!?$*_-=<>|.,:;a1é",
        "def f():\n",
        "if a:\n",
        "class A:\n",
        '"""',
    ]
    texts = {}
    for number in range(100):
        piece = "".join(draw.choices(signs, k=draw.choice([1, 2, 3, 8])))
        texts[f"{number}: {piece!r}"] = piece * (40_000 // len(piece))
    found = read_apart(seconds_of, texts, tmp_path, seconds=600, memory=3 << 30)
    assert {name: taken for name, taken in found.items() if taken > SECONDS} == {}


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def never_ends(*_: object, **__: object) -> SimpleNamespace:
    """As a decoder would that is written in C: no handler of a signal is called in the midst of it."""
    return SimpleNamespace(notebook=re.match(r"(a*)*b", "a" * 40), remarks=[])


@contextmanager
def opened(notebook: NotebookNode) -> Iterator[Judge]:
    yield never_ends


@contextmanager
def echoing(notebook: NotebookNode) -> Iterator[Judge]:
    yield echo


def handed_in(folder: Path, number: int) -> dict[str, Examinee]:
    tasks = {}
    for student in range(number):
        path = folder / str(student) / "x.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook_file("def f(): return 1"))
        tasks[str(student)] = Examinee(path.parent, "x", source(), "")
    return tasks


def test_a_judge_that_takes_too_long_is_ended_and_the_submission_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine_module, "JUDGING", 1.0)
    ((_, examined),) = examine_all(handed_in(tmp_path, 1), opened, 1)
    assert examined.problem.startswith("what it holds, or what its functions send and return, takes too long to read")


def test_where_the_fork_server_is_killed_the_next_submissions_get_another(tmp_path: Path) -> None:
    found = {}
    for student, examined in examine_all(handed_in(tmp_path, 3), echoing, 1):
        found[student] = examined.problem
        for child in psutil.Process().children() if student == "0" else ():
            if "multiprocessing.forkserver" in " ".join(child.cmdline()):
                child.kill()
    assert found == dict.fromkeys("012", "")


# ── feedback ─────────────────────────────────────────────────────────────────────────────────────────────────────────


HARD = {
    "tables": lambda: new_markdown_cell("|a|\n|-|\n" * 20_000),
    "open formulas": lambda: new_markdown_cell("\\\\(" * 60_000),
    "blanks": lambda: new_code_cell(" \n" * 60_000, execution_count=1),
}


@pytest.mark.parametrize("name", ["tables", *(pytest.param(each, marks=pytest.mark.slow) for each in list(HARD)[1:])])
def test_a_page_that_takes_too_long_becomes_plain_text(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feedback_page_module, "_SECONDS", 2.0)
    about = {"student": "ada", "assignment": "x", "score": 1, "max_score": 2, "late_penalty": 0}
    notebook = new_notebook(cells=[new_markdown_cell("# Rings"), HARD[name]()])
    page, _ = _exporter().from_notebook_node(notebook, {"nbgrader": about})
    assert "They are shown as plain text, because formatting them takes too long." in page
    assert "Rings: 1 of 2 points" in page and "more characters" in page
    assert "ada, x: formatting the notebook takes more than 2 s of the processor" in caplog.text


def test_a_usual_page_is_formatted(caplog: pytest.LogCaptureFixture) -> None:
    about = {"student": "ada", "assignment": "x", "score": 1, "max_score": 2, "late_penalty": 0}
    notebook = new_notebook(cells=[new_markdown_cell("# Rings\n\n*so*"), new_code_cell("x = 1", execution_count=1)])
    page, _ = _exporter().from_notebook_node(notebook, {"nbgrader": about})
    assert "<em>so</em>" in page and 'id="cell-1-line-1"' in page and "plain text" not in page
    assert caplog.text == ""


def _exporter() -> FeedbackPage:
    exporter = FeedbackPage()
    exporter.log = logging.getLogger("feedback")
    return exporter
