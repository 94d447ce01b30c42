"""A table for a spreadsheet: comma-separated, every cell on one line, and none that it would take for a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from distlib.printable import printable

_FORMULA = re.compile(r"((?:^|[;|])[\s\"']*)([=+@-])")


def spreadsheet(rows: Iterable[Sequence[str]], keep: str = "") -> str:
    """The text of a CSV file.

    Args:
        rows: the names of the columns first.
        keep: a cell that stays as it is, though it begins like a formula: a "-" alone is none.
    """
    file = io.StringIO()
    csv.writer(file).writerows(
        [cell if keep and cell == keep else _no_formula(printable(cell)) for cell in row] for row in rows
    )
    return file.getvalue()


def is_safe(cell: str) -> bool:
    """Whether a cell stands in a spreadsheet as it is: what names a student to another system must not change."""
    return _no_formula(printable(cell)) == cell


def _no_formula(cell: str) -> str:
    """A cell with ' before what would begin a formula: also where a spreadsheet takes a ; or | for the next cell."""
    return cell if _is_number(cell) else _FORMULA.sub(r"\1'\2", cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
