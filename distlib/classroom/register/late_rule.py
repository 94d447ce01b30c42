"""What being late costs: a rule as data, for all exercises of a class. `distlib class late` sets it.

    handed in     days begun      slip days left     days that cost     of 13 points, at 10 % a day
    in time       0               2                  0                  13
    + 5 minutes   0 (grace)       2                  0                  13
    + 1 day 3 h   2               2 → 0              0                  13
    + 3 days      3               0                  3                  9.1

Slip days are used up in the order in which exercises are due, so the order of grading makes no difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from distlib.classroom.words import count, points

_DAY = 86_400


@dataclass(frozen=True)
class LateRule:
    """What being late costs.

    Attributes:
        per_day: the share of a score that each day begun costs, above 0 and at most 1.
        grace: seconds after the due date that cost nothing; days are counted from their end.
        slip_days: days late in all exercises together that cost nothing.
        at_most: the share of a score that is lost at most.

    Raises:
        ValueError: a number that can't be one of these.
    """

    per_day: float
    grace: float = 0.0
    slip_days: int = 0
    at_most: float = 1.0

    def __post_init__(self) -> None:
        numbers = (self.per_day, self.grace, self.slip_days, self.at_most)
        if not all(type(each) in (int, float) and math.isfinite(each) for each in numbers):
            raise ValueError("a rule of lateness has four numbers")
        if not (0 < self.per_day <= 1 and 0 < self.at_most <= 1 and self.grace >= 0 and self.slip_days >= 0):
            raise ValueError("shares of points lie between 0 and 100 %, and times are not below 0")

    def days(self, seconds_late: float) -> int:
        """The days that have begun since the grace period ended."""
        return max(0, math.ceil((seconds_late - self.grace) / _DAY))

    def days_charged(self, seconds_late: Sequence[float]) -> list[int]:
        """The days that cost points, after slip days.

        Args:
            seconds_late: of each exercise of a student, in the order in which these are due.
        """
        left, charged = self.slip_days, []
        for seconds in seconds_late:
            free = min(left, self.days(seconds))
            left -= free
            charged.append(self.days(seconds) - free)
        return charged

    def share_lost(self, days: int) -> float:
        """The share of a score that as many days cost."""
        return min(self.at_most, self.per_day * days)

    @property
    def words(self) -> str:
        """Say it: "10 % of the points for each day begun; the first 10 min are free; 3 slip days in the term"."""
        if self.per_day == 1:
            cost = "all points" if self.at_most == 1 else f"{percent(self.at_most)} of the points"
        else:
            most = f", at most {percent(self.at_most)}" if self.at_most < 1 else ""
            cost = f"{percent(self.per_day)} of the points for each day begun{most}"
        grace = f"the first {_duration(self.grace)} are free" if self.grace else ""
        slip = f"{count(self.slip_days, 'slip day')} in the term" if self.slip_days else ""
        return "; ".join(filter(None, [cost, grace, slip]))


def percent(share: float) -> str:
    """ "10 %", "12.5 %"."""
    return f"{points(round(100 * share, 2))} %"


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(filter(None, [f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)]))


def duration(text: str) -> timedelta:
    """ "10min", "2h", "1d" as a time. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *(min|h|d)", text.strip())
    if match is None:
        raise ValueError(f"expected a time such as 10min, 2h or 1d, got {text!r}")
    return timedelta(seconds=float(match[1]) * {"min": 60, "h": 3_600, "d": _DAY}[match[2]])
