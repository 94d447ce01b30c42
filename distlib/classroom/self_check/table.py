"""The results of a check as a table: text for a terminal, HTML for a notebook, in the colors that it has."""

from __future__ import annotations

import html
import textwrap

from distlib.classroom.self_check.results import FAILS, NOT_WRITTEN, PASSES, Result, Results, Row

_HEADS = ("function", "visible test", "hidden test", "next")
_SIGNS = {PASSES: "✓", FAILS: "✗", NOT_WRITTEN: "○"}
_CELL = "text-align: left; vertical-align: top; padding: .3em 1em .3em 0; border-bottom: 1px solid; color: inherit"
_MESSAGE = "white-space: pre-wrap; margin: .3em 0 1em 0; color: inherit; background: none"


class Table:
    """Shows `Results`: in a notebook as HTML, else as text."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __str__(self) -> str:
        rows = [_HEADS, *(_texts(row) for row in self.results.rows)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        failures = [row.failure for row in self.results.rows if row.failure[0]]
        messages = [f"{test}\n{textwrap.indent(message, '  ')}" for test, message in failures]
        about = f"{self.results.summary}\n{self.results.looked_at}"
        return "\n\n".join(["\n".join(lines), *messages, *self.results.notes, about])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col" style="{_CELL}">{head}</th>' for head in _HEADS)
        rows = "".join(map(_html_row, self.results.rows))
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in [*self.results.notes, self.results.looked_at])
        return (
            f'<table style="border-collapse: collapse; color: inherit">'
            f'<caption style="text-align: left; color: inherit"><strong>{html.escape(self.results.name)}: '
            f"{html.escape(self.results.summary)}</strong></caption>"
            f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
            f"{''.join(map(_html_message, self.results.rows))}{notes}"
        )


def _texts(row: Row) -> tuple[str, ...]:
    return row.function, _shown(row.visible), _shown(row.hidden), row.next


def _shown(result: Result) -> str:
    return f"{_SIGNS.get(result.state, '–')} {result.state}"


def _html_row(row: Row) -> str:
    name, *others = map(html.escape, _texts(row))
    cells = "".join(f'<td style="{_CELL}">{text}</td>' for text in others)
    return f'<tr><th scope="row" style="{_CELL}"><code>{name}</code></th>{cells}</tr>'


def _html_message(row: Row) -> str:
    test, message = map(html.escape, row.failure)
    if not test:
        return ""
    return f'<details open><summary>{test}</summary><pre style="{_MESSAGE}">{message}</pre></details>'
