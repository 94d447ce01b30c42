"""Points of a game in which time counts: 10 for the seconds of par."""

from __future__ import annotations

PAR = 10


def points_for(seconds: float, par_seconds: float) -> int:
    """10 · (par's seconds / your seconds), rounded down."""
    return int(PAR * par_seconds / seconds + 1e-9)


def in_words(points: int) -> str:
    """ "9 points", "10 points, par", "12 points, better than par"."""
    return f"{points} points{', par' if points == PAR else ', better than par' if points > PAR else ''}"


def sum_in_words(total: int, levels: int) -> str:
    """ "37 points; par is 50"."""
    return f"{total} points; par is {PAR * levels}"
