"""What counts as evidence of a student's own work, and what it can bear. Pure values: this module reads no files.

Running all cells as they were given out makes none of it, however often it is done:

    CommittedPrediction   a prediction, committed by hand before the run that answers it
    LastCheck             a function that passed its tests, as it stands in its cell now
    WrittenText           an answer in words
    BestPlay              a play of a game that somebody has chosen
    PointSum              marks that came back

`distlib progress`, the page my_course.md, where JupyterLab starts, `distlib report`, the student's own board and
`distlib hand-in` ask this module, and have no rules of their own. That cells ran is said as that: "run".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.uploads.recognize import normal
from distlib.classroom.words import count
from distlib.games import BestPlay
from distlib.games.who_chose import BY_CELL, BY_FUNCTION, BY_WIDGET

PASSED_BEFORE, FAILED_BEFORE, NOT_CHECKED = "passed before", "failed before", "not checked"
"""What a check says of a function besides PASSES and FAILS: its cell has changed since, or nothing was said of it."""

_MOST = 0.5  # of a lesson's predictions: it is done if more than that were committed
_BY_HAND = {BY_CELL, BY_WIDGET, BY_FUNCTION}


# ── what a check said ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LastCheck:
    """What the last check of an exercise said.

    Attributes:
        checked: when that was; None if nothing was ever checked.
        states: "passes", "fails", … by function.
        cells: by function, a hash of the cell that was checked, see `hash_of`; none in files of earlier versions.
    """

    checked: datetime | None = None
    states: dict[str, str] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)

    def verdict(self, function: str, source: str) -> str:
        """PASSES or FAILS, if that was said of the cell as it stands; else PASSED_BEFORE, FAILED_BEFORE, NOT_CHECKED.

        Where it is not known which code was checked, a function that failed fails, and one that passed is NOT_CHECKED.

        Args:
            function: its name.
            source: the text of its cell.
        """
        said, then = self.states.get(function), self.cells.get(function)
        if said == FAILS:
            return FAILS if then in (None, hash_of(source)) else FAILED_BEFORE
        if said == PASSES:
            return PASSES if then == hash_of(source) else PASSED_BEFORE if then else NOT_CHECKED
        return NOT_CHECKED


def hash_of(source: str) -> str:
    """A hash of a cell's text, without what editors change."""
    return sha256(normal(source).encode()).hexdigest()[:20]


# ── what was done by hand ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class CommittedPrediction:
    """A prediction that was committed before the run that answers it.

    Attributes:
        question: "" in files of earlier versions.
        said: what was committed, likewise.
    """

    question: str = ""
    said: str = ""


@dataclass(frozen=True)
class WrittenText:
    """An answer in words that an exercise asks for.

    Attributes:
        name: of its cell, such as "report".
        text: the student's, in Markdown; "" while it is not written.
    """

    name: str
    text: str = ""


def chosen_by_hand(plays: Iterable[BestPlay]) -> tuple[BestPlay, ...]:
    """The plays that a student has chosen. Of what an earlier version has kept nobody knows who has."""
    return tuple(play for play in plays if play.by in _BY_HAND)


# ── what that can bear ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Evidence:
    """Of a lesson with its exercise, where it has one; of an exercise alone, there are no predictions.

    Attributes:
        asked: how many predictions the lesson asks for.
        predictions: those that were committed.
        functions: how many functions the exercise asks for.
        passing: the names of those that pass, with the code that stands there now.
        texts: the answers in words that it asks for, written or not.
        marks: those that came back; None if none did.
    """

    asked: int = 0
    predictions: Sequence[CommittedPrediction] = ()
    functions: int = 0
    passing: Sequence[str] = ()
    texts: Sequence[WrittenText] = ()
    marks: PointSum | None = None

    @property
    def written(self) -> list[WrittenText]:
        """The answers in words that are written."""
        return [each for each in self.texts if each.text]

    @property
    def all_pass(self) -> bool:
        """Whether every function of the exercise passes."""
        return bool(self.functions) and len(self.passing) == self.functions

    @property
    def bears_done(self) -> bool:
        """Whether a lesson that has run is done: most predictions were committed, or all functions pass."""
        return self.share_predicted > _MOST or self.all_pass

    @property
    def share_predicted(self) -> float:
        """Of the lesson's predictions, how many were committed, from 0 to 1. Its hours count by that."""
        return len(self.predictions) / self.asked if self.asked else 0.0

    @property
    def share_solved(self) -> float:
        """Of the exercise, how much is solved, from 0 to 1, by functions and texts, or by marks. Its hours count so."""
        asked = self.functions + len(self.texts)
        solved = (len(self.passing) + len(self.written)) / asked if asked else 0.0
        full = self.marks.full + self.marks.waiting if self.marks else 0.0
        marked = self.marks.got / full if self.marks and full else 0.0
        return min(1.0, max(solved, marked))

    def in_words(self) -> list[str]:
        """ "5 of 6 predictions committed before the run", "4 of 4 functions pass the tests", …"""
        number = len(self.passing)
        passing = f"{number} of {count(self.functions, 'function')} pass{'es' if number == 1 else ''} the tests"
        found = {
            f"{len(self.predictions)} of {count(self.asked, 'prediction')} committed before the run": self.predictions,
            passing: self.passing,
            f"{len(self.written)} of {count(len(self.texts), 'text')} written": self.written,
        }
        marks = [f"{self.marks.words(' of ')} points came back"] if self.marks else []
        return [*(words for words, things in found.items() if things), *marks]
