"""What a game is: levels, choices as plain data, and a replay of them by the rules that the lesson has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from distlib.draw.players.scene import Scene

Choices = Mapping[str, Any]
"""What a student chose, as JSON has it: text, numbers, true, false and lists of them."""

Result = TypeVar("Result")
"""What a play of the game gives, in the lesson and in a replay."""


class ChoiceError(ValueError):
    """Choices that the game does not have. The message says which, and what was expected."""


class ScoredGame(ABC):
    """What the board needs of a game: what it is called, and how its scores are read.

    Attributes:
        name: short, as files have it.
        title: as students read it.
        lesson: where it is played, such as "09_pipeline".
        unit: of a score.
        less_is_better: whether a lower score is better.
        digits: a score has this many behind the point. Those that are then equal are ties.
        levels: by number, from 1 on, their names.
        remark: what else a reader of the board should know: sentences, or "".
    """

    name: str
    title: str
    lesson: str
    unit: str
    less_is_better: bool
    digits: int
    levels: Mapping[int, str]
    remark: str = ""

    @abstractmethod
    def par(self, level: int) -> float:
        """The score that is par. Asked for often, so it is computed once."""

    def in_words(self, score: float) -> str:
        """ "23 points", "366.7 ms"."""
        return f"{score:,.{self.digits}f} {self.unit}"

    def in_order(self, score: float) -> float:
        """A number that is lower for a better score."""
        return score if self.less_is_better else -score


class CourseGame(ScoredGame, Generic[Result]):
    """A game of the course. A file of this package whose name ends with `_game.py` makes one, called GAME.

    Attributes:
        result: the type of what a play gives.
    """

    result: ClassVar[type]

    @abstractmethod
    def play(self, level: int, choices: Choices) -> Result:
        """Play choices by the rules of the lesson, in virtual time. Nothing is drawn by chance.

        Raises:
            ValueError: the game does not have these choices; they may be any JSON.
        """

    @abstractmethod
    def written(self, result: Result) -> tuple[int, dict[str, Any]]:
        """The level and the choices of a play, so that `play` gives the same again."""

    @abstractmethod
    def measured(self, result: Result) -> float | None:
        """What a play reached, in `unit`; None if it does not count, such as a layout that does not fit."""

    @abstractmethod
    def scene(self, result: Result) -> Scene:
        """The picture of a play."""

    @abstractmethod
    def record(self, level: int) -> dict[str, Any]:
        """The choices of the best play that the authors know of."""

    def score(self, result: Result) -> float | None:
        """What a play reached, rounded; None if it does not count."""
        measured = self.measured(result)
        return None if measured is None else round(measured, self.digits)
