"""Which functions of an exercise are answered, by the text of their cells. Nothing runs.

nbgrader keeps a checksum of each cell as it was released. Where that is lost, a cell is a stub if all that it adds to
its docstrings is `raise NotImplementedError()`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.utils import compute_checksum

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.recognize import cell_of

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


def read_answers(cells: Sequence[HandedCell], functions: Sequence[str]) -> list[Answer]:
    """What the text of each function's cell shows.

    Args:
        cells: of the student's notebook.
        functions: the names of the exercise's solution cells.
    """
    return [Answer(name, _state(cell_of(cells, name))) for name in functions]


def _state(cell: HandedCell | None) -> str:
    if cell is None:
        return MISSING
    if _is_as_released(cell) or not cell.source.strip():
        return STUB
    return _state_of_code(cell.source) if cell.kind == "code" else ANSWERED


def _is_as_released(cell: HandedCell) -> bool:
    if not cell.grade_id or "checksum" not in cell.mark:
        return False
    make = new_code_cell if cell.kind == "code" else new_markdown_cell
    try:
        return bool(compute_checksum(make(cell.source, metadata={"nbgrader": cell.mark})) == cell.mark["checksum"])
    except (KeyError, TypeError, ValueError):  # marks that somebody has edited
        return False


def _state_of_code(source: str) -> str:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        magic = any(line.lstrip().startswith(("%", "!")) for line in source.splitlines())
        line = getattr(error, "lineno", None) or 1
        return ANSWERED if magic else f"not Python: line {line} of its cell, {str(error).split(' (')[0]}"
    left = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and _is_stub(node)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if functions and all(_is_stub(node) for function in functions for node in _body(function)):
        return STUB
    lines = ", ".join(map(str, left))
    return f"unfinished: raise NotImplementedError() is still in line {lines} of its cell" if left else ANSWERED


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def _is_stub(node: ast.AST) -> bool:
    raised = node.exc if isinstance(node, ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
