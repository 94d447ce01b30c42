"""Notebooks of any size or oddness are read, or refused, in time that has an end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_notebook

from distlib.classroom.grader import examine as examining
from distlib.classroom.grader.alike import pieces
from distlib.classroom.grader.examine import Examinee, examine
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.submission import MOST_CELLS, CannotGrade, read_submission
from distlib.judge.remote import judge as judging
from distlib.judge.remote.judge import _all_plain

CELL = {"cell_type": "code", "metadata": {}, "source": "x = 1", "outputs": []}
MANY = 40_000


def read(tmp_path: Path, text: str) -> list[str]:
    """The text of each cell of a notebook file."""
    (tmp_path / "n.ipynb").write_text(text)
    return [cell.source for cell in read_submission(tmp_path / "n.ipynb").cells]


def notebook(*cells: Any, **more: Any) -> str:
    return json.dumps({"cells": [*cells, CELL], "metadata": {}, **more})


@pytest.mark.parametrize(
    "make",
    [
        lambda: notebook({**CELL, "outputs": [{"text": ["a\n"] * MANY}]}),
        lambda: notebook({**CELL, "outputs": ["\\" * 5 * MANY]}),
        lambda: notebook({**CELL, "metadata": {"tags": [1] * MANY}}),
        lambda: notebook({**CELL, "metadata": {str(number): 1 for number in range(MANY)}}),
        lambda: notebook(CELL, metadata=[[]] * MANY),
        lambda: notebook(CELL).replace('"outputs": []', '"outputs": [' + "[" * MANY + "]" * MANY + "]", 1),
    ],
    ids=["lines of output", "backslashes", "a list", "keys", "empty lists", "nested outputs"],
)
def test_what_is_not_a_cells_text_is_passed_over(tmp_path: Path, make: Callable[[], str]) -> None:
    assert read(tmp_path, make())[-1] == "x = 1"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: notebook(*[CELL] * MOST_CELLS), "more than 1,000 cells"),
        (lambda: notebook(CELL).replace("{}", "[" * MANY + "]" * MANY, 1), "can't be parsed"),
        (lambda: notebook(CELL).replace("{}", '{"a":' * MANY + "1" + "}" * MANY, 1), "can't be parsed"),
        (lambda: notebook(CELL).replace("{}", "1" * 100_000, 1), "can't be parsed"),
        (lambda: notebook({**CELL, "outputs": ["a" * 100_000]})[:50_000], "ends in the middle"),
        (lambda: notebook({**CELL, "source": "a" * (33 << 20)}), "more than 32 MiB without its outputs"),
    ],
    ids=["cells", "nested lists", "nested dicts", "a long number", "cut off", "a long text"],
)
def test_what_is_too_much_is_refused_with_a_reason(tmp_path: Path, make: Callable[[], str], words: str) -> None:
    with pytest.raises(CannotGrade, match=words):
        read(tmp_path, make())


def test_a_cell_of_many_lines_keeps_them_all(tmp_path: Path) -> None:
    (text, _) = read(tmp_path, notebook({**CELL, "source": ["x\n"] * MANY}))
    assert text == "x\n" * MANY


def test_reading_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_ever(*_: object) -> None:
        while True:
            time.process_time()

    monkeypatch.setattr(examining, "read_submission", for_ever)
    monkeypatch.setattr(examining, "READING", 0.05)
    (tmp_path / "n.ipynb").write_text(notebook(CELL))
    task = Examinee(tmp_path, "n", Source(new_notebook(), []), "")
    assert examine(task, lambda *_: pytest.fail("judged")).problem.startswith("it takes more than 0.05 s to read")


def test_ipython_reads_no_more_than_a_notebook_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The characters are those of all cells together: once they are used up, no line is rewritten any more."""
    monkeypatch.setattr(judging, "_MOST_CHARACTERS_READ", 80)
    cells = ["%a 1", "!b\n" * 5, "%c " + "c" * 40, "%d 4", "x = 5"]
    assert list(_all_plain(cells)) == [
        "get_ipython().run_line_magic('a', '1')\n", "pass  # !b\n" * 5, "pass  # %c " + "c" * 40,
        "pass  # %d 4", "x = 5\n",
    ]  # fmt: skip


def test_of_a_long_answer_only_the_beginning_is_compared() -> None:
    assert len(pieces("a + " * MANY)) < 10
    assert pieces("(" * MANY) == pieces("(" * 2 * MANY)
