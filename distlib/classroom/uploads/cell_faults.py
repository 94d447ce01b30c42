"""What is wrong with a function's cell that can be seen without running it: a sentence's rest, after "scatter: ".

    not Python: line 3 of its cell (code cell 7), …     its cell defines my_scatter, not scatter
    line 9 of its cell never ends: …                     unfinished: raise NotImplementedError() is still in line 4 …

A fault is only named where it is certain. What else is wrong, tests find.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from distlib.classroom.grader.definitions import raises_not_implemented
from distlib.classroom.uploads.bindings import bindings
from distlib.python_text import (
    NotPython,
    Version,
    here,
    names_made,
    shown,
    statements_of,
    why_not_python,
    without_magics,
)

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.While, ast.For, ast.AsyncFor)
_NO_FUNCTIONS = (ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.JoinedStr, ast.ListComp, ast.DictComp)
_LEAVES = (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)
_ENDS_A_PROCESS = re.compile(r"\b(?:exit|quit|_exit|abort)\b")
_BINDS_ANYTHING = re.compile(
    r"\bimport\s*\*|\b(?:exec|eval|globals|vars|locals)\s*\(|^\s*%(?:run|load)\b", re.MULTILINE
)
_ALWAYS_THERE = {*dir(builtins), "__name__", "__file__", "__doc__", "get_ipython", "display", "In", "Out", "_"}
_MOST_NAMED = 3


@dataclass(frozen=True)
class CellToRead:
    """A cell that answers a function.

    Attributes:
        function: its name.
        source: its text.
        number: counting the notebook's code cells from 1.
        stub: what students start with; "" if that is not known.
        graded_with: the Python that the class is graded with; None if that is not known.
    """

    function: str
    source: str
    number: int
    stub: str = ""
    graded_with: Version | None = None


def fault_in(cell: CellToRead) -> str:
    """The first fault of a cell; "" if none is certain."""
    if problem := why_not_python(cell.source, cell.graded_with, cell.function):
        return _not_python(problem, cell)
    statements = statements_of(cell.source)
    return _not_defined(cell, statements) or _unfinished(statements) or never_ends(cell.source)


def unknown_names(source: str, texts: Iterable[str]) -> list[str]:
    """The names that a cell uses and that no cell of the notebook makes.

    Args:
        source: of the cell, which is Python.
        texts: of all code cells that count.
    """
    texts = [source, *texts]
    if any(_BINDS_ANYTHING.search(text) for text in texts):
        return []
    known = _ALWAYS_THERE | {name for text in texts for name in _names_made(text)}
    return sorted({need for each in bindings(without_magics(source)) for need in each.needs} - known)


def in_words(names: Sequence[str]) -> str:
    """The fault of using names that nothing makes; "" without one."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"uses {', '.join(names[:_MOST_NAMED])}{more}, which no cell defines" if names else ""


# ── not Python ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _not_python(problem: NotPython, cell: CellToRead) -> str:
    """With the place, and with both Pythons."""
    place, graded = f"line {problem.line} of its cell (code cell {cell.number})", cell.graded_with
    if graded is not None and why_not_python(cell.source, None, cell.function) is None:
        return f"not Python {shown(graded)}, which grades it: {place}, {problem.why}; here is Python {shown(here())}"
    grading = f"{shown(graded)} grades it" if graded else "which one grades it is not known here"
    newer = f"; or is it {problem.newer}?" if problem.newer else ""
    return f"not Python: {place}, {problem.why}{newer} (here is Python {shown(here())}; {grading})"


# ── not defined ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _not_defined(cell: CellToRead, statements: Sequence[ast.stmt]) -> str:
    name, made = cell.function, names_made(statements)
    if name not in made:
        others = [other for other, value in made.items() if isinstance(value, _SCOPES)]
        what = f"defines {', '.join(others[:_MOST_NAMED])}, not {name}" if others else f"defines nothing called {name}"
        return "" if _BINDS_ANYTHING.search(cell.source) else f"its cell {what}"
    value = made[name]
    if isinstance(value, _NO_FUNCTIONS):
        return f"in its cell, {name} is {ast.unparse(value)[:40]} and no function"
    stubs = names_made(statements_of(cell.stub))
    return _other_arguments(name, value, stubs.get(name)) if isinstance(value, _FUNCTIONS) else ""


def _other_arguments(name: str, mine: ast.AST, stub: ast.AST | None) -> str:
    """What can't be called as the exercise calls it."""
    if not isinstance(mine, _FUNCTIONS) or not isinstance(stub, _FUNCTIONS) or mine.decorator_list:
        return ""
    if isinstance(mine, ast.AsyncFunctionDef) and not isinstance(stub, ast.AsyncFunctionDef):
        return f"async def {name}: a call of it would not run it; take away async"
    (least, most), (asked_least, asked_most) = _counts(mine.args), _counts(stub.args)
    asked = {arg.arg for arg in stub.args.kwonlyargs}
    alone = zip(mine.args.kwonlyargs, mine.args.kw_defaults, strict=True)
    missing = [arg.arg for arg, default in alone if default is None and arg.arg not in asked]
    if least <= asked_most and most >= asked_least and not missing:
        return ""
    return f"it takes ({ast.unparse(mine.args)}), the exercise asks for {name}({ast.unparse(stub.args)})"


def _counts(args: ast.arguments) -> tuple[float, float]:
    """How many arguments by position a function takes, at least and at most."""
    every = len(args.posonlyargs) + len(args.args)
    return every - len(args.defaults), inf if args.vararg else every


def _names_made(source: str) -> Iterator[str]:
    """The names that a cell makes, also as `global` inside of a function."""
    for each in bindings(source):
        yield from each.names
    try:
        nodes = [node for statement in statements_of(source) for node in ast.walk(statement)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


# ── unfinished, and without an end ───────────────────────────────────────────────────────────────────────────────────


def _unfinished(statements: Sequence[ast.stmt]) -> str:
    nodes = [node for statement in statements for node in ast.walk(statement)]
    if left := [node.lineno for node in nodes if isinstance(node, ast.Raise) and raises_not_implemented(node)]:
        return f"unfinished: raise NotImplementedError() is still in line {', '.join(map(str, left))} of its cell"
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    if functions and all(_does_nothing(each.body) for each in functions):
        return "unfinished: there is nothing in it but pass"
    return ""


def _does_nothing(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(each, ast.Pass) or _is_constant(each) for each in body)


def _is_constant(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def never_ends(source: str) -> str:
    """The fault of a `while True` that nothing leaves, in a cell that is Python; "" without one."""
    for node in _outside_of_try(statements_of(source)):
        if isinstance(node, ast.While) and _is_true(node.test) and not _is_left(node):
            return f"line {node.lineno} of its cell never ends: while {ast.unparse(node.test)} without break or return"
    return ""


def _outside_of_try(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes but those inside of a `try` or `with`, which an error may leave."""
    for node in nodes:
        if not isinstance(node, ast.Try | ast.TryStar | ast.With):
            yield node
            yield from _outside_of_try(ast.iter_child_nodes(node))


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _is_left(loop: ast.While) -> bool:
    """Whether something in a loop may leave it, as far as its text shows."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    return any(isinstance(node, _LEAVES) for node in inside) or bool(
        _breaks(loop.body) or _ENDS_A_PROCESS.search(ast.unparse(loop))
    )


def _breaks(body: Sequence[ast.AST]) -> bool:
    """Whether a `break` leaves the loop of this body, and not one inside of it."""
    for node in body:
        inside: Collection[ast.AST] = node.orelse if isinstance(node, _LOOPS) else list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Break) or (not isinstance(node, _SCOPES) and _breaks(list(inside))):
            return True
    return False
