"""A sum of points of which some wait for a mark by hand, and how tables and pages show it."""

from __future__ import annotations

from dataclasses import dataclass

from distlib.classroom.words import points

WAITS = "waits for a mark by hand"


@dataclass(frozen=True)
class PointSum:
    """Points of one student.

    Attributes:
        got: what the marks that are given add up to.
        full: what these marks could be.
        waiting: points for which nobody has given marks yet. They are in neither of the others.
    """

    got: float = 0.0
    full: float = 0.0
    waiting: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether all of it waits for a mark by hand."""
        return bool(self.waiting) and not self.full

    @classmethod
    def of_mark(cls, got: float, full: float, is_open: bool) -> PointSum:
        """The points of one mark. is_open: whether it waits for a mark by hand."""
        return cls(waiting=full) if is_open else cls(got, full)

    def __add__(self, other: PointSum) -> PointSum:
        return PointSum(self.got + other.got, self.full + other.full, self.waiting + other.waiting)

    def less(self, penalty: float) -> PointSum:
        """What is left after a penalty."""
        return PointSum(self.got - penalty, self.full, self.waiting)

    def words(self, of: str = " / ", star: str = "") -> str:
        """ "3 / 4", "– / 10" while all of it waits, "26 / 30, 10 open" while some does.

        Args:
            of: what stands between both numbers.
            star: a sign behind them.
        """
        if self.is_open:
            return f"–{of}{points(self.waiting)}"
        waiting = f", {points(self.waiting)} open" if self.waiting else ""
        return f"{points(self.got)}{of}{points(self.full)}{star}{waiting}"
