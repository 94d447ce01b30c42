"""Lines of a student that reach inside Python or the library. They cost nothing, and the report names them.

A rank reports of itself whether a tensor was changed in place, or a model is in training mode. Code that forges this
has to find or replace what reports it: frames, the garbage collector, names with _, parts of a module. Answers seldom
need any of that. It can be hidden from a look at the text, so that nothing is found proves nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from distlib.judge.remote.student_cells import RankCell

REACHES_INSIDE = "reaches inside"  # how the remark begins
_MOST_CHARACTERS = 100_000  # of a cell; Python may take a gigabyte to read more
_MOST_REMARKS = 3
_MODULES = (
    "builtins",
    "ctypes",
    "gc",
    "importlib",
    "inspect",
    "distlib.checks",
    "distlib.exercises",
    "distlib.judge",
    "distlib.worlds",
)
_CALLS = ("eval", "exec", "vars", "setattr", "delattr", "__import__")
_ATTRIBUTES = (
    "__globals__",
    "__self__",
    "__func__",
    "__dict__",
    "__code__",
    "__closure__",
    "__subclasses__",
    "__builtins__",
    "f_back",
    "f_globals",
    "f_locals",
    "tb_frame",
    "gi_frame",
    "_getframe",
)


def reaches_inside(cells: Iterable[RankCell]) -> list[str]:
    """Remarks about the first such lines. cells: the student's, in plain Python."""
    found = [f"cell {cell.number}, line {line}: {what}" for cell in cells for line, what in _in(cell.source)]
    more = len(found) - _MOST_REMARKS
    listed = ", ".join(found[:_MOST_REMARKS]) + (f" and {more} more" if more > 0 else "")
    return [f"{REACHES_INSIDE}, where a rank could lie about itself; read the answer: {listed}"] if found else []


def _in(source: str) -> Iterator[tuple[int, str]]:
    """Line and what stands there, once for each line."""
    if len(source) > _MOST_CHARACTERS:
        yield 1, f"more than {_MOST_CHARACTERS:,} characters, which nobody has looked at"
        return
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt | ast.expr)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    modules = {name for node in nodes if isinstance(node, ast.Import) for name in _names(node)}
    shown: dict[int, str] = {}
    for node in nodes:
        what = _imported(node) or _called(node) or _attribute(node, modules)
        if what:
            shown.setdefault(node.lineno, what)
    yield from sorted(shown.items())


def _names(node: ast.Import) -> Iterator[str]:
    return ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _imported(node: ast.AST) -> str:
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return next((f"import {name}" for name in names if f"{name}.".startswith(tuple(f"{m}." for m in _MODULES))), "")


def _called(node: ast.AST) -> str:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS
    return f"{node.func.id}(…)" if is_call else ""  # type: ignore[attr-defined]


def _attribute(node: ast.AST, modules: set[str]) -> str:
    if not isinstance(node, ast.Attribute):
        return ""
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    is_replaced = not isinstance(node.ctx, ast.Load) and owner in modules
    is_hidden = node.attr.startswith("_") and not node.attr.endswith("__") and owner not in ("self", "cls", "_", "os")
    is_hidden = is_hidden and not (isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super")
    return f"{owner or '…'}.{node.attr}" if is_replaced or is_hidden or node.attr in _ATTRIBUTES else ""
