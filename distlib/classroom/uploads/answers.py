"""Which functions of an exercise are answered, by the text of their cells. Nothing runs.

nbgrader keeps a checksum of each cell as it was released. Where that is lost, a cell is a stub if it says what students
start with, or if all that it adds to its docstrings is `raise NotImplementedError()`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from distlib.classroom.grader.definitions import is_stub, raises_not_implemented
from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.recognize import cell_of, normal

ANSWERED = "answered"
STUB = "not answered: still the stub"
MISSING = "not answered: its cell is missing"


@dataclass(frozen=True)
class Answer:
    """One function. state: ANSWERED, STUB, MISSING, or what is unfinished about it."""

    function: str
    state: str

    @property
    def is_empty(self) -> bool:
        """Whether the student has written nothing."""
        return self.state in (STUB, MISSING)


def read_answers(cells: Sequence[HandedCell], functions: Sequence[str], starts: Collection[str] = ()) -> list[Answer]:
    """What the text of each function's cell shows.

    Args:
        cells: of the student's notebook.
        functions: the names of the exercise's solution cells.
        starts: their texts as students get them: see `Known`.
    """
    return [Answer(name, _state(cell_of(cells, name), starts)) for name in functions]


def _state(cell: HandedCell | None, starts: Collection[str]) -> str:
    if cell is None:
        return MISSING
    if cell.is_as_released or not cell.source.strip() or normal(cell.source) in starts:
        return STUB
    return _state_of_code(cell.source) if cell.kind == "code" else ANSWERED


def _state_of_code(source: str) -> str:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        magic = any(line.lstrip().startswith(("%", "!")) for line in source.splitlines())
        line = getattr(error, "lineno", None) or 1
        return ANSWERED if magic else f"not Python: line {line} of its cell, {str(error).split(' (')[0]}"
    left = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and raises_not_implemented(node)]
    if is_stub(source):
        return STUB
    lines = ", ".join(map(str, left))
    return f"unfinished: raise NotImplementedError() is still in line {lines} of its cell" if left else ANSWERED
