"""How marks are rounded, in tables, on pages and in files for other systems: here, and nowhere else.

A score is added up from unrounded marks, the penalty for being late is taken off, and it is put on another scale if
that was asked for. Then it is rounded, once: to two decimals, halves up. 2.675 becomes 2.68, as a student would do it;
Python's own `round` makes 2.67 of it, because the number in memory is a little less.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_STEP = Decimal("0.01")
_NOISE = 9  # decimals to which a sum of floating-point numbers is right


def rounded(points: float) -> Decimal:
    """A number of points to two decimals, halves away from zero. A sum's last bits do not count: 0.1 + 0.2 is 0.3."""
    exact = Decimal(repr(round(float(points), _NOISE)))
    return exact.quantize(_STEP, ROUND_HALF_UP) + 0  # no "-0"


def rescaled(points: float, full: float, out_of: float | None) -> Decimal:
    """Points of `full`, on a scale up to `out_of`, rounded; without a scale as they are. Of 0 points, 0."""
    if out_of is None or not full:
        return rounded(points)
    return rounded(points * out_of / full)
