"""The lines of a student's notebook that a message names: "cell 7, line 8".

        7 incoming = torch.zeros(len(mine))
---->   8 comm.exchange(mine, next_rank, incoming, previous_rank)
        9 mine += incoming

For notebooks that have been judged. In one that is running, `checks.remark` does it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from nbformat import NotebookNode

from distlib.worlds.diagnosis import numbered_lines, places_in

_MOST = 2
_NUMBER = len("----> 123 ")


@dataclass(frozen=True)
class Excerpt:
    """A line of a cell, and its neighbors.

    Attributes:
        cell, line: their numbers, from 1.
        lines: with their numbers; an arrow points to the one that is meant.
    """

    cell: int
    line: int
    lines: list[str]

    @property
    def place(self) -> str:
        """The line as messages name it: "cell 7, line 12"."""
        return f"cell {self.cell}, line {self.line}"

    def __str__(self) -> str:
        return "\n".join([self.place, *self.lines])


def excerpts(message: str, notebook: NotebookNode) -> list[Excerpt]:
    """The first lines of the student's that a message names, each once.

    Args:
        message: of a check.
        notebook: with execution counts, which are the numbers of its cells. Test cells are not the student's.
    """
    cells = {cell.execution_count: cell for cell in notebook.cells if cell.cell_type == "code" and not _is_test(cell)}
    named = places_in(message)
    found = (Excerpt(cell, line, _around(cells[cell].source, line)) for cell, line in named if cell in cells)
    return [excerpt for excerpt in found if excerpt.lines][:_MOST]


def with_excerpt(message: str, notebook: NotebookNode) -> str:
    """A message with the first line that it names below what was seen, as in a running notebook (`checks.remark`)."""
    lines = message.splitlines()
    ends = (number for number, line in enumerate(lines) if not line or line.startswith(("Usual cause: ", "Passed ")))
    end = next(ends, len(lines))
    for excerpt in excerpts(message, notebook)[:1]:
        lines[end:end] = [f"  In code cell {excerpt.cell} from the top:", *(f"  {line}" for line in excerpt.lines)]
    return "\n".join(lines)


def _around(source: str, line: int) -> list[str]:
    """The lines around one, without the indentation that all of them have."""
    numbered = numbered_lines(source.splitlines(), line)
    code = [] if not numbered else textwrap.dedent("\n".join(text[_NUMBER:] for text in numbered)).split("\n")
    return [text[:_NUMBER] + rest for text, rest in zip(numbered, code, strict=True)]


def _is_test(cell: NotebookNode) -> bool:
    mark = cell.metadata.get("nbgrader", {})
    return bool(mark.get("grade")) and not mark.get("solution")
