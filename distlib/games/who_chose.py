"""Who has chosen a play: the student, or a cell of the lesson that ran as it was given out.

A play counts as the student's own if he or she has moved a slider, or if the cell that plays is not one of the course's
as it stands there: a changed one, or one of the student's own. In a changed cell, a call that is written word for word
as it was given out, such as `lay_out(1, tp=4)`, is still the course's. Outside of notebooks, all is typed by hand.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import distlib
from distlib.course_root import course_folder

BY_CELL, BY_WIDGET, BY_FUNCTION = "cell", "widget", "function"
"""How a play was chosen: in a cell of the student's, with a slider, or by the function that the student has written."""

_GIVEN_OUT = ("course/*.ipynb", "work/.originals/*.ipynb")  # now, and what copies were made from earlier
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def is_given(frame: FrameType) -> bool:
    """Whether a call comes from a cell, or is itself, as the course has given it out.

    Args:
        frame: where the call is made.
    """
    source = running_cell()
    if source is None:
        return False
    cells, calls = _given_out(_folder(Path.cwd()))
    return _meaning(source) in cells or _call_at(frame, source) in calls


def running_cell() -> str | None:
    """The text of the cell that runs in this notebook; None outside of one, and while a widget is moved."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    get_parent = getattr(shell, "get_parent", None)
    code = get_parent().get("content", {}).get("code") if get_parent else None
    return code if isinstance(code, str) else None


def _folder(start: Path) -> Path:
    """Where the course's own notebooks are: above a folder, else next to the package."""
    return course_folder(start) or Path(distlib.__file__).parents[1]


@cache
def _given_out(course: Path) -> tuple[frozenset[str], frozenset[str]]:
    """What the course's cells say, comments apart, and the calls of constants in them."""
    paths = [path for pattern in _GIVEN_OUT for path in sorted(course.glob(pattern))]
    sources = [source for path in paths for source in _code_cells(path)]
    calls = {call for source in sources for call in _constant_calls(source)}
    return frozenset(map(_meaning, sources)), frozenset(calls)


def _code_cells(path: Path) -> Iterator[str]:
    try:
        cells = json.loads(path.read_bytes())["cells"]
        yield from ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (OSError, ValueError, KeyError, TypeError):
        return  # who reads the course names a notebook that is broken


@cache
def _meaning(source: str) -> str:
    """A cell without its comments and line breaks; as it is, if it is not plain Python."""
    try:
        return ast.dump(ast.parse(source))
    except _UNREADABLE:
        return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _constant_calls(source: str) -> Iterator[str]:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except _UNREADABLE:
        return
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_constant(node):
            yield ast.dump(node)


def _is_constant(call: ast.Call) -> bool:
    """Whether a call names nothing but what it calls."""
    names = [node for node in ast.walk(call) if isinstance(node, ast.Name)]
    return len(names) == 1


def _call_at(frame: FrameType, source: str) -> str:
    """The call that a frame of the running cell is making; "" if it can't be found there."""
    positions = list(frame.f_code.co_positions())
    where = positions[frame.f_lasti // 2] if frame.f_lasti >= 0 else None
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except _UNREADABLE:
        return ""
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return next((ast.dump(each) for each in calls if _position(each) == where), "")


def _position(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
