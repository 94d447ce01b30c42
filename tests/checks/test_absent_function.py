"""Why there is no function: what a student reads for each way in which a cell can lack it."""

from __future__ import annotations

from distlib.checks.absent_function import AnswerCell, why_absent
from distlib.checks.remark import CheckFailed
from distlib.python_text import Version
from tests.heard import tells

SLIP = "def shift(comm:\n    pass"
SINCE_3_15 = "lazy import numpy\ndef shift(comm): pass"
LATER = (9, 1)  # a Python that this one is older than


def told(source: str, written_with: Version | None = None, is_a_value: bool = False) -> str:
    cell = AnswerCell("shift", 3, source, written_with)
    return str(CheckFailed("shift", why_absent(cell, is_a_value=is_a_value)))


def test_a_cell_without_the_function() -> None:
    assert tells(told(""), "checks/absent_function.txt: empty")
    assert tells(told("def shfit(comm): pass"), "checks/absent_function.txt: other_name")
    assert tells(told("x = 3"), "checks/absent_function.txt: nothing")
    assert tells(told("shift = 3", is_a_value=True), "checks/absent_function.txt: no_function")


def test_a_cell_that_this_python_can_not_read() -> None:
    assert tells(told(SLIP), "checks/absent_function.txt: not_python")
    assert tells(told(SINCE_3_15), "checks/absent_function.txt: not_python_perhaps")
    assert tells(told(SINCE_3_15, LATER), "checks/absent_function.txt: not_python_newer")
    assert tells(told(SLIP, LATER), "checks/absent_function.txt: some_newer")
