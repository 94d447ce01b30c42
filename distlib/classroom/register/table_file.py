"""A table that an instructor or a learning platform has saved, however a spreadsheet writes it.

Excel separates cells by the sign of the country (`;` in half of Europe, tabs in "Unicode text"), and writes UTF-8 with
a mark in front, UTF-16, or the Windows code page. A table that is read in the wrong way has no column of the expected
name, and is then taken for none; so all of these are read, and what can't be is an error with the file's name.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from pathlib import Path

_SEPARATORS = (",", ";", "\t")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MOST_BYTES = 64 << 20


class TableError(ValueError):
    """A table that can't be used. The message says why, without the file's name."""


def table_cells(path: Path) -> list[list[str]]:
    """The rows of a table that have anything in them, cell by cell.

    Raises:
        OSError: there is no such file, or it can't be read.
        TableError: it is no table.
    """
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise TableError(f"it has more than {_MOST_BYTES >> 20} MiB")
    lines = _text(data).splitlines(keepends=True)
    if lines and lines[0].strip().lower().startswith("sep="):  # Excel's own first line
        lines = lines[1:]
    head = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=lambda sign: len(next(csv.reader([head], delimiter=sign), [])))
    try:
        rows = list(csv.reader(io.StringIO("".join(lines), newline=""), delimiter=separator))
    except csv.Error as error:
        raise TableError(str(error)) from None
    return [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]


def table_rows(path: Path, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """The rows below the head, with the cells by the names of their columns: "First name" is first_name.

    Args:
        path: of the table.
        needed: columns that it must have.

    Raises:
        OSError: there is no such file, or it can't be read.
        TableError: it is no table, or lacks a column.
    """
    head, *rows = table_cells(path) or [[]]
    names = [column_name(cell) for cell in head]
    if missing := [name for name in needed if name not in names]:
        raise TableError(f"it has no column {' or '.join(missing)}; its first line is {', '.join(head) or 'empty'}")
    return [dict(zip(names, [*row, *[""] * len(names)], strict=False)) for row in rows]


def column_name(head: str) -> str:
    """A column's name, without what spreadsheets and people change about it."""
    return "_".join(head.split()).casefold()


def _text(data: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), _guessed(data))
    try:
        return data.decode(encoding)
    except UnicodeError:
        raise TableError("it is no text in UTF-8, UTF-16 or Windows-1252; save it as CSV UTF-8") from None


def _guessed(data: bytes) -> str:
    """The encoding of a text without a mark. UTF-16 has zeros in every second byte of plain letters."""
    if b"\0" in data[:200]:
        return "utf-16-be" if data[:1] == b"\0" else "utf-16-le"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
