"""A table for a spreadsheet: comma-separated, every cell on one line, and none that it would take for a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from distlib.printable import printable

_FORMULA = re.compile(r"((?:^|[;|])[\s\"']*)([=+@-])")


def spreadsheet(rows: Iterable[Sequence[str]]) -> str:
    """The text of a CSV file. rows: the names of the columns first."""
    file = io.StringIO()
    csv.writer(file).writerows([_no_formula(printable(cell)) for cell in row] for row in rows)
    return file.getvalue()


def _no_formula(cell: str) -> str:
    """A cell with ' before what would begin a formula: also where a spreadsheet takes a ; or | for the next cell."""
    return cell if _is_number(cell) else _FORMULA.sub(r"\1'\2", cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
