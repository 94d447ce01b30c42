"""What the tests of an exercise said, function by function, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from distlib.grading.case import count

PASSES = "passes"
FAILS = "fails"
NOT_WRITTEN = "not written yet"
WAITS = "after the visible test"
ABSENT = "when it is graded"

_NEXT = {
    (PASSES, PASSES): "done",
    (PASSES, ABSENT): "done here; hidden tests will run other sizes, dtypes and layouts",
    (PASSES, FAILS): "right in the visible cases; read what the hidden test found",
    (FAILS, WAITS): "read what the test found",
    (NOT_WRITTEN, WAITS): "write it",
}


@dataclass(frozen=True)
class Result:
    """What one test said.

    Attributes:
        state: PASSES, FAILS, NOT_WRITTEN; or why it did not run: WAITS, ABSENT.
        message: of a test that fails, what the check says, and below it what the function printed.
    """

    state: str
    message: str = ""


@dataclass(frozen=True)
class Row:
    """One function.

    Attributes:
        function: its name.
        visible, hidden: what its two tests said.
    """

    function: str
    visible: Result
    hidden: Result

    @property
    def passes(self) -> bool:
        """Whether every test that is here passes."""
        return self.visible.state == PASSES and self.hidden.state in (PASSES, ABSENT)

    @property
    def next(self) -> str:
        """What to do next."""
        return _NEXT[self.visible.state, self.hidden.state]

    @property
    def message(self) -> str:
        """What the test that fails says; "" for a function that is not written, or passes."""
        failed = [result.message for result in (self.visible, self.hidden) if result.state == FAILS]
        return failed[0] if failed else ""


@dataclass(frozen=True)
class Results:
    """All functions of an exercise.

    Attributes:
        name: of the exercise.
        looked_at: a sentence: what was run.
        rows: in the notebook's order.
        remarks: what else a student should know, such as a cell that did not come to an end.
    """

    name: str
    looked_at: str
    rows: list[Row]
    remarks: list[str]

    @property
    def passes(self) -> bool:
        """Whether every function passes."""
        return all(row.passes for row in self.rows)

    @property
    def summary(self) -> str:
        """A sentence: how many functions pass."""
        passing = sum(row.passes for row in self.rows)
        if self.passes:
            return f"All {count(passing, 'function')} pass{'es' if passing == 1 else ''}."
        return f"{passing} of {count(len(self.rows), 'function')} pass{'es' if passing == 1 else ''}."


def row_of(function: str, visible: Result, hidden: Result | None) -> Row:
    """A row. hidden: None if there is no hidden test here."""
    if visible.state != PASSES:
        return Row(function, visible, Result(WAITS))
    return Row(function, visible, hidden or Result(ABSENT))


def result_of(error: str | None, printed: str = "") -> Result:
    """What a test said that ended with this error, or with none."""
    if error is None:
        return Result(PASSES)
    if "it is not written yet" in error:
        return Result(NOT_WRITTEN)
    return Result(FAILS, "\n\n".join(filter(None, [error, printed.strip()])))
