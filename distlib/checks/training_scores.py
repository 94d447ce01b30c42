"""Seconds of trainings that a test has run, which a test cell tells besides its verdict: for the board of a class.

    test cell ──tell_trainings──► judge ──output of the cell──► the student's record ──► the board

What a student prints comes into the same outputs, as text. The scores are data next to it, which no print makes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

KEY = "distlib_trainings"  # of the metadata of an output
_gathered: ContextVar[list[TrainingScore] | None] = ContextVar("gathered", default=None)


@dataclass(frozen=True)
class TrainingScore:
    """A training that has reached its goal within all limits.

    Attributes:
        setting: where it ran, such as "a slow network".
        seconds: until all ranks had the result, in virtual time.
        par: the seconds that are par.
        goal: the loss that was to be reached.
        curve: (virtual seconds, loss) in order; the last one is the end.
    """

    setting: str
    seconds: float
    par: float
    goal: float
    curve: tuple[tuple[float, float], ...]

    def as_data(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TrainingScore:
        """The score of what `as_data` gave, also after a way through JSON.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: it is something else.
        """
        curve = tuple((float(seconds), float(loss)) for seconds, loss in data["curve"])
        numbers = {name: float(data[name]) for name in ("seconds", "par", "goal")}
        if not curve or not all(0 <= number < math.inf for number in (*numbers.values(), *sum(curve, ()))):
            raise ValueError("expected a curve, and numbers that are finite and at least 0")
        return cls(str(data["setting"]), **numbers, curve=curve)


def tell_trainings(scores: Sequence[TrainingScore]) -> None:
    """Tell what trainings have reached. In a notebook this prints them; under the judge they are gathered."""
    gathered = _gathered.get()
    if gathered is None:
        print(in_words(scores))
    else:
        gathered.extend(scores)


@contextlib.contextmanager
def gather_trainings() -> Iterator[list[TrainingScore]]:
    """A list of all that is told within the block."""
    gathered: list[TrainingScore] = []
    token = _gathered.set(gathered)
    try:
        yield gathered
    finally:
        _gathered.reset(token)


def in_words(scores: Sequence[TrainingScore]) -> str:
    """A line for each, such as "a slow network: 12.345 virtual seconds, par 14.667"."""
    return "\n".join(f"{each.setting}: {each.seconds:.3f} virtual seconds, par {each.par:.3f}" for each in scores)
