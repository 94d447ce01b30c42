"""Files of marks, read as Canvas and Moodle read them: what they refuse is refused here, with their reason.

Written from the description of the columns and from what their importers check: for Canvas `gradebook_importer.rb` of
instructure/canvas-lms, for Moodle `grade/import/csv/classes/load_data.php` of moodle/moodle, both of 2025.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from decimal import Decimal

CANVAS_NUMBER = re.compile(r"\d+(?:\.\d+)?")
FORMULA = re.compile(r"[=+@\t\r-]")


class Refused(Exception):
    """The platform would not import this file."""


def canvas_marks(text: str, known: dict[str, str]) -> dict[str, dict[str, Decimal | None]]:
    """The marks that Canvas would import, by its student and the title of the assignment.

    Args:
        text: of the file.
        known: students by what Canvas knows of them: number, SIS id, login or name.
    """
    heads, *rows = _table(text)
    _check_canvas_heads(heads)
    marks: dict[str, dict[str, Decimal | None]] = {}
    for row in rows:
        if "Points Possible" in row[0]:
            _check_points(row[5:])
            continue
        found = [known[key] for key in (row[1], row[2], row[3], row[0]) if key and key in known]
        if not found:
            raise Refused(f"Canvas asks who {row[0]!r} is")
        if found[0] in marks:
            raise Refused(f"{found[0]} stands there twice")
        marks[found[0]] = {title: _canvas_mark(cell) for title, cell in zip(heads[5:], row[5:], strict=True)}
    return marks


def _check_canvas_heads(heads: Sequence[str]) -> None:
    """Student, ID, SIS User ID, SIS Login ID, and Section as the last of what is about the student."""
    if len(heads) <= 3 or "Student" not in heads[0] or "ID" not in heads[1]:
        raise Refused("invalid header row")
    if not (re.search(r"SIS\s+User\s+ID", heads[2]) and re.search(r"SIS\s+Login\s+ID", heads[3])):
        raise Refused("the columns of SIS")
    if "Section" not in heads[4]:
        raise Refused("no column Section behind them")
    if len(set(heads)) < len(heads):
        raise Refused("two assignments of one title")


def _check_points(cells: Sequence[str]) -> None:
    if not all(CANVAS_NUMBER.fullmatch(cell) for cell in cells):
        raise Refused("points that are not numbers")


def _canvas_mark(cell: str) -> Decimal | None:
    """A blank cell leaves the mark in Canvas as it is."""
    if cell == "":
        return None
    if not CANVAS_NUMBER.fullmatch(cell):
        raise Refused(f"{cell!r} is not a mark")
    return Decimal(cell)


def moodle_marks(text: str, by: str, known: Sequence[str], most: int = 100) -> dict[str, dict[str, Decimal | None]]:
    """The marks that Moodle would import, by student and head of the column.

    Args:
        text: of the file.
        by: the head of the column by which Moodle is told to find students.
        known: what Moodle has there.
        most: points that it takes.
    """
    heads, *rows = _table(text)
    place, marks = heads.index(by), {}
    student = ""
    for row in rows:
        student = row[place] or student  # as Moodle does: the student of the row above
        if student not in known:
            raise Refused(f"user mapping error: {student!r}")
        if student in marks:
            raise Refused(f"the marks of {student} would be written over")
        marks[student] = {head: _moodle_mark(cell, most) for head, cell in zip(heads[4:], row[4:], strict=True)}
    return marks


def _moodle_mark(cell: str, most: int) -> Decimal | None:
    if cell == "-":
        return None
    if not re.fullmatch(r"\d+(?:\.\d+)?", cell):
        raise Refused(f"bad grade {cell!r}")
    if Decimal(cell) > most:
        raise Refused(f"the grade {cell} is too big")
    return Decimal(cell)


def _table(text: str) -> list[list[str]]:
    """The rows, of one length, each on a line of its own, with no cell that a spreadsheet would calculate."""
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    if len({len(row) for row in rows}) != 1:
        raise Refused("rows of different lengths")
    if len(text.splitlines()) != len(rows):
        raise Refused("a cell of several lines")
    for cell in (cell for row in rows for cell in row):
        if FORMULA.match(cell) and cell != "-":
            raise Refused(f"{cell!r} is a formula")
    return rows
