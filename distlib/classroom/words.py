"""Sentences about counts and points, for the pages and tables that students and instructors read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distlib.checks.formatting import count
from distlib.classroom.rounding import rounded

__all__ = [
    "aligned",
    "all_of",
    "count",
    "have",
    "joined",
    "not_in_the_table",
    "points",
    "points_lost",
    "was",
    "with_name",
]

_MOST_NAMES = 10


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines of text: every column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def points(number: float) -> str:
    """A number of points, to two decimals: "2.4", never "2.4000000000000004"."""
    return f"{rounded(number):.2f}".rstrip("0").rstrip(".")


def points_lost(number: float) -> str:
    """ "1 point was lost", "2.4 points were lost"."""
    shown = points(number)
    return f"{shown} point was lost" if shown == "1" else f"{shown} points were lost"


def was(number: int) -> str:
    """The verb for so many things: "was" or "were"."""
    return "was" if number == 1 else "were"


def have(number: int) -> str:
    """The verb for so many things: "has" or "have"."""
    return "has" if number == 1 else "have"


def all_of(number: int, noun: str) -> str:
    """All of some things: "the function", "both functions", "all 5 functions"."""
    if number == 1:
        return f"the {noun}"
    return f"both {count(2, noun).removeprefix('2 ')}" if number == 2 else f"all {count(number, noun)}"


def with_name(student: str, names: Mapping[str, str]) -> str:
    """A student with the full name, where that is known: "s1055 (Ana Souza)"."""
    return f"{student} ({names[student]})" if names.get(student) else student


def not_in_the_table(students: Sequence[str]) -> str:
    """That some students with a folder or marks are not in students.csv, and what to do; "" for nobody."""
    if not students:
        return ""
    are = "is" if len(students) == 1 else "are"
    return (
        f"Not in students.csv {are} {joined(students)}: a name that a student has in uploads? "
        f"Then: distlib class same {students[0]} STUDENT"
    )


def joined(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """ "ada", "ada and bob", "ada, bob and cy"; of many the first ones: "ada, bob and 298 more"."""
    shown = list(names) if len(names) <= most else [*names[:most], f"{len(names) - most:,} more"]
    *first, last = shown or ["nobody"]
    return f"{', '.join(first)} and {last}" if first else last
