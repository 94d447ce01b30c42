"""What the tests of an exercise said, function by function, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distlib.classroom.grader.check_message import split_message
from distlib.classroom.self_check.hints import NoHint, hint
from distlib.classroom.words import all_of, count
from distlib.python_text import Version, here, shown, why_not_python

PASSES = "passes"
FAILS = "fails"
NOT_WRITTEN = "not written yet"
NOT_RUN = "not run yet"
WAITS = "not yet"  # the visible test comes first
ABSENT = "when graded"

_NEXT = {
    (PASSES, PASSES): "done",
    (PASSES, ABSENT): "done here",
    (PASSES, FAILS): "read below",
    (FAILS, WAITS): "read below",
    (NOT_WRITTEN, WAITS): "write it",
    (NOT_RUN, WAITS): "run its cell",
}
_HIDDEN_LATER = "Hidden tests run when the work is graded: with other sizes, dtypes and layouts."


class ExerciseError(Exception):
    """Nothing can be checked. The message says why, and what to do."""


@dataclass(frozen=True)
class Result:
    """What one test said.

    Attributes:
        state: PASSES, FAILS, NOT_WRITTEN; or why it did not run: NOT_RUN (the function's cell), WAITS, ABSENT.
        message: of a test that fails, what the check says, and below it what the function printed.
    """

    state: str
    message: str = ""


@dataclass(frozen=True)
class FunctionRow:
    """One function.

    Attributes:
        function: its name.
        visible, hidden: what its two tests said.
        source: the text of the cell that was checked; "" if that is not known.
    """

    function: str
    visible: Result
    hidden: Result
    source: str = ""

    @property
    def passes(self) -> bool:
        """Whether every test that is here passes."""
        return self.visible.state == PASSES and self.hidden.state in (PASSES, ABSENT)

    @property
    def next(self) -> str:
        """What to do next."""
        return _NEXT[self.visible.state, self.hidden.state]

    @property
    def failure(self) -> tuple[str, str]:
        """Which test fails and what it says; empty for a function that is not written, or passes."""
        if self.visible.state == FAILS:
            return f"{self.function}, visible test", self.visible.message
        if self.hidden.state == FAILS:
            return f"{self.function}, hidden test (the visible one passes)", self.hidden.message
        return "", ""


@dataclass(frozen=True)
class Results:
    """All functions of an exercise.

    Attributes:
        name: of the exercise.
        looked_at: a sentence: what was run.
        rows: in the notebook's order.
        remarks: what else a student should know, such as a cell that did not come to an end.
        by_hand: what no test looks at: sentences.
        then: where everything passes, what comes next in the course: a sentence, or "".
    """

    name: str
    looked_at: str
    rows: list[FunctionRow]
    remarks: list[str]
    by_hand: Sequence[str] = ()
    then: str = ""

    @property
    def passes(self) -> bool:
        """Whether every function passes."""
        return all(row.passes for row in self.rows)

    @property
    def notes(self) -> list[str]:
        """What a student should know besides the rows."""
        later = any(row.hidden.state == ABSENT for row in self.rows)
        return [
            *self.by_hand,
            *(f"Remark: {remark}" for remark in self.remarks),
            *([_HIDDEN_LATER] if later else []),
            *self._way_to_hints(),
        ]

    def _way_to_hints(self) -> list[str]:
        """Where hints are for the first function that fails, else for the first that is not written."""
        left = [row for row in self.rows if not row.passes]
        failing = [row for row in left if any(row.failure)]
        stuck = next((row.function for row in failing or left), "")
        try:
            command = hint(stuck, exercise=self.name).command()
        except NoHint:
            return []
        return [f"Stuck? Three hints can be opened below the cell of {stuck}.", f"In a terminal: {command}"]

    @property
    def summary(self) -> str:
        """A sentence: how many functions pass."""
        passing = sum(row.passes for row in self.rows)
        if self.passes:
            words = f"{all_of(passing, 'function')} pass{'es' if passing == 1 else ''}."
            return words[:1].upper() + words[1:]
        return f"{passing} of {count(len(self.rows), 'function')} pass{'es' if passing == 1 else ''}."


def row_of(function: str, visible: Result, hidden: Result | None, source: str = "") -> FunctionRow:
    """A row. hidden: None if there is no hidden test here. source: see `FunctionRow`."""
    if visible.state != PASSES:
        return FunctionRow(function, visible, Result(WAITS), source)
    return FunctionRow(function, visible, hidden or Result(ABSENT), source)


def as_graded(row: FunctionRow, graded_with: Version | None) -> FunctionRow:
    """A row of a check by this Python; one that fails, if the Python that grades can't read the function.

    Args:
        row: with the text that was checked.
        graded_with: that Python; None if it is not known.
    """
    problem = why_not_python(row.source, graded_with, row.function) if graded_with and row.source else None
    if problem is None or row.visible.state != PASSES:
        return row
    grader = shown(graded_with or here())
    told = (
        f"{row.function}: Python {grader}, which grades it, can't read line {problem.line} of its cell: {problem.why}. "
        f"Its tests pass here, with Python {shown(here())}."
    )
    return row_of(row.function, Result(FAILS, told), None, row.source)


def result_of(error: str | None, printed: str = "") -> Result:
    """What a test said that ended with this error, or with none."""
    if error is None:
        return Result(PASSES)
    if split_message(error).is_unwritten:
        return Result(NOT_WRITTEN)
    return Result(FAILS, "\n\n".join(filter(None, [error, printed.strip()])))
