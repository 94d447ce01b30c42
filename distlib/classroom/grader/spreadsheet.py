"""A table for a spreadsheet: comma-separated, every cell on one line, and none that it would take for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from distlib.classroom.grader.submission import printable


def spreadsheet(rows: Iterable[Sequence[str]]) -> str:
    """The text of a CSV file. rows: the names of the columns first."""
    file = io.StringIO()
    csv.writer(file).writerows([_no_formula(printable(cell)) for cell in row] for row in rows)
    return file.getvalue()


def _no_formula(cell: str) -> str:
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
