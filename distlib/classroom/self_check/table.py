"""The results of a check as a table: text for a terminal, HTML for a notebook, in the colors that it has."""

from __future__ import annotations

import textwrap

from distlib.classroom.pages import render
from distlib.classroom.self_check.results import FAILS, NOT_WRITTEN, PASSES, FunctionRow, Result, Results
from distlib.classroom.words import aligned

_HEADS = ("function", "visible test", "hidden test", "next")
_SIGNS = {PASSES: "✓", FAILS: "✗", NOT_WRITTEN: "○"}


class Table:
    """Shows `Results`: in a notebook as HTML, else as text."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __str__(self) -> str:
        lines = aligned([_HEADS, *(_texts(row) for row in self.results.rows)])
        messages = [f"{test}\n{textwrap.indent(message, '  ')}" for test, message in self._failures()]
        about = "\n".join(filter(None, [self.results.summary, self.results.looked_at, self.results.then]))
        return "\n\n".join(["\n".join(lines), *messages, *self.results.notes, about])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = map(_texts, self.results.rows)
        return render("check_table.html", heads=_HEADS, rows=rows, results=self.results, failures=self._failures())

    def _failures(self) -> list[tuple[str, str]]:
        return [row.failure for row in self.results.rows if row.failure[0]]


def _texts(row: FunctionRow) -> tuple[str, ...]:
    return row.function, _shown(row.visible), _shown(row.hidden), row.next


def _shown(result: Result) -> str:
    return f"{_SIGNS.get(result.state, '–')} {result.state}"
