"""A table whose cells are words: HTML in a notebook, in the colors of its theme; aligned text elsewhere."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

WIDEST = 30  # characters of a column of text; longer cells have several lines

_CELL = "text-align:left;vertical-align:top;white-space:normal"
_MAY_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_(=./])(?=\w)")  # in long names: after "_", before a capital


class SideBySide:
    """Rows of words under a head. `code` in backticks is set as code.

    Attributes:
        head: the columns' titles.
        rows: a text for each column.
    """

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        for row in rows:
            if len(row) != len(head):
                raise ValueError(f"expected {len(head)} cells in each row, got {len(row)}: {list(row)}")
        self.head = list(head)
        self.rows = [list(row) for row in rows]

    def __str__(self) -> str:
        widths = [min(WIDEST, max(map(len, column))) for column in zip(self.head, *self.rows, strict=True)]
        return "\n".join("\n".join(_lines(row, widths)) for row in [self.head, *self.rows])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="{_CELL}">{_marked_up(cell)}</th>' for cell in self.head)
        rows = "".join(
            "<tr>" + "".join(f'<td style="{_CELL}">{_marked_up(cell)}</td>' for cell in row) + "</tr>"
            for row in self.rows
        )
        return f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    wrapped = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    lines = zip_longest(*wrapped, fillvalue="")
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _marked_up(cell: str) -> str:
    return re.sub(r"`([^`]*)`", _code, html.escape(cell, quote=False))


def _code(match: re.Match[str]) -> str:
    return f"<code>{_MAY_BREAK.sub('<wbr>', match[1])}</code>"
