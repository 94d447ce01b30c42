"""How many students have how many points: ten columns next to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from distlib.classroom.words import points

_BINS = 10
_TALLEST = 5.5  # rem


@dataclass(frozen=True)
class Tenth:
    """A tenth of the points: how many students have `first` to `last` of them, and the height of its bar, in CSS."""

    students: int
    first: str
    last: str
    height: str

    @property
    def words(self) -> str:
        """ "3 with 10 to 12 points"."""
        return f"{self.students} with {self.first} to {self.last} points"


def tenths(totals: Sequence[float], full: float) -> list[Tenth]:
    """A column for each tenth of the points that can be had. totals: of each student; nobody, no columns."""
    if not totals:
        return []
    full = full or 1.0
    numbers = Counter(max(0, min(_BINS - 1, int(_BINS * got / full))) for got in totals)
    most, bounds = max(numbers.values()), [points(full * number / _BINS) for number in range(_BINS + 1)]
    return [
        Tenth(numbers[number], first, last, f"{_TALLEST * numbers[number] / most:.2f}rem")
        for number, (first, last) in enumerate(pairwise(bounds))
    ]
