"""Right answers with one change each, made by machine: a size, say, as the number that it has in the visible test.

    values = what each expression has been while the visible test ran: `noting` makes an answer that notes them
    mutants_of(text, values)      torch.empty(tensor.shape[1])   →   torch.empty(3)

What is changed:

    a size       an expression that had one value in all visible cases becomes this value; of a shape, each dimension
    a loop       is left before its last turn, or after as many as it had at most in the visible cases
    a divisor    left out, one more, one less; a mean becomes a sum
    an index     0, one more, one less; so do the ends of slices and of ranges
    a dtype      left out, or another one
    a sign       + becomes -, and - becomes +
    a comparison off by one
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Site = tuple[int, int, int, int]  # of an expression: first line and column, last line and column


@dataclass(frozen=True)
class Mutant:
    """A right answer with one change: the line it begins in, what stood there, what stands there now, the whole."""

    line: int
    old: str
    new: str
    text: str


@dataclass
class Noted:
    """What has been seen at one place of an answer.

    Attributes:
        values: of an expression: numbers, dtypes, and shapes as tuples. At most `MOST`, and then others are left out.
        is_other: whether it had a value of another kind, too.
        turns: of a loop: the most that it has made.
    """

    values: set[Any] = field(default_factory=set)
    is_other: bool = False
    turns: int = 0


MOST = 100
NOTED: dict[Site, Noted] = {}  # of the answer that runs in this process
_NAMES = {name: f"{name}_of_the_mutants" for name in ("Turns", "note", "turns")}  # that no answer has
_LIKE = ("empty_like", "zeros_like", "ones_like")
_CASTS = ("to", "float", "double", "long", "int", "half", "bfloat16", "type")
_SWAPPED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_SIGNS = {ast.Add: "-", ast.Sub: "+"}
_ENDLESS = ("count", "cycle", "repeat", "iter")


# ── what the visible test shows ──────────────────────────────────────────────────────────────────────────────────────


def note(site: Site, value: Any) -> Any:
    """Note the value of an expression, and hand it on."""
    noted = NOTED.setdefault(site, Noted())
    kept = tuple(value.shape) if isinstance(value, torch.Tensor) else value
    is_shape = isinstance(kept, tuple) and all(type(each) is int for each in kept)
    if is_shape or isinstance(kept, bool | int | float | str | torch.dtype):
        if len(noted.values) < MOST:
            noted.values.add(kept if isinstance(kept, torch.dtype) else (type(kept).__name__, kept))
    else:
        noted.is_other = True
    return value


class Turns:
    """The turns of one loop: `step()` before each."""

    def __init__(self, site: Site) -> None:
        self.noted, self.count = NOTED.setdefault(site, Noted()), 0

    def step(self) -> bool:
        """Count a turn; true."""
        self.count += 1
        self.noted.turns = max(self.noted.turns, self.count)
        return True


def turns(site: Site, values: Iterable[Any]) -> Iterator[Any]:
    """The values that a loop goes through; notes how many."""
    counted = Turns(site)
    for value in values:
        counted.step()
        yield value


def noting(text: str) -> str:
    """An answer that does the same, and notes what its expressions are and how many turns its loops make."""
    tree = _Noting().visit(ast.parse(text))
    names = ", ".join(f"{name} as {ours}" for name, ours in _NAMES.items())
    return f"from tests.mutations import {names}\n" + ast.unparse(ast.fix_missing_locations(tree))


class _Noting(ast.NodeTransformer):
    """Wraps each expression that may stand for a size, and each loop."""

    def visit_For(self, node: ast.For) -> ast.For:
        site = site_of(node.iter)
        self.generic_visit(node)
        node.iter = _call("turns", site, node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        site = site_of(node.iter)
        self.generic_visit(node)
        node.iter = _call("turns", site, node.iter)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        name = f"turns_in_{node.lineno}"
        first = ast.parse(f"{name} = {_NAMES['Turns']}({site_of(node.test)})").body[0]
        self.generic_visit(node)
        node.test = ast.BoolOp(ast.And(), [node.test, ast.parse(f"{name}.step()", mode="eval").body])
        return [first, node]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        node.args = [self.visit(each) for each in node.args]
        node.keywords = [self.visit(each) for each in node.keywords]
        return node if isinstance(node.func, ast.Name) and node.func.id == "super" else self._noted(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return self._noted(node)

    visit_Subscript = visit_Name = visit_Attribute  # type: ignore[assignment]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [self.visit(each) for each in node.body]
        node.body = [each for part in node.body for each in (part if isinstance(part, list) else [part])]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self.visit_FunctionDef(node)  # type: ignore[arg-type, return-value]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node

    def _noted(self, node: ast.expr) -> ast.expr:
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        return _call("note", site_of(node), node) if is_read and hasattr(node, "end_col_offset") else node


def site_of(node: ast.expr) -> Site:
    """Where an expression stands."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _call(name: str, site: Site, node: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(_NAMES[name], ast.Load()), [ast.parse(str(site), mode="eval").body, node], [])


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Edit = tuple[ast.AST, str]  # what is changed, and what stands there then


def mutants_of(text: str, seen: Mapping[Site, Noted]) -> list[Mutant]:
    """The mutants of an answer, by line; each program once, and none that is the answer itself.

    Args:
        text: the answer.
        seen: what was noted of it in the visible test.
    """
    source = _Source(text, seen)
    found = {ast.dump(ast.parse(text)): None}
    mutants = []
    for node, new in sorted(source.edits(), key=lambda edit: site_of(edit[0])):  # type: ignore[arg-type]
        whole = source.with_edit(node, new)
        try:
            program = ast.dump(ast.parse(whole))
        except SyntaxError:  # what stands in an f-string, say
            continue
        if program not in found:
            found[program] = None
            mutants.append(Mutant(node.lineno, source.of(node), new, whole))  # type: ignore[attr-defined]
    return mutants


class _Source:
    """The text of an answer, and its possible changes."""

    def __init__(self, text: str, seen: Mapping[Site, Noted]) -> None:
        self.lines = text.encode().splitlines(keepends=True)
        self.tree, self.seen = ast.parse(text), seen

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self._ends(node)
        return b"".join(self.lines)[start:end].decode()

    def with_edit(self, node: ast.AST, new: str) -> str:
        """The whole text with another one in the place of a node."""
        start, end = self._ends(node)
        whole = b"".join(self.lines)
        if isinstance(node, ast.While):
            start = start - node.col_offset
        return (whole[:start] + new.encode() + whole[end:]).decode()

    def _ends(self, node: ast.AST) -> tuple[int, int]:
        line, column, last_line, last_column = site_of(node)  # type: ignore[arg-type]
        before = [0]
        for each in self.lines:
            before.append(before[-1] + len(each))
        return before[line - 1] + column, before[last_line - 1] + last_column

    def edits(self) -> Iterator[Edit]:
        """All changes."""
        for node in self._changeable(self.tree):
            for kind in _sizes, _loops, _divisors, _indices, _dtypes, _signs, _comparisons:
                yield from kind(self, node)

    def _changeable(self, node: ast.AST) -> Iterator[ast.AST]:
        """What is below a node; without annotations, decorators, defaults and f-strings."""
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST) and not isinstance(each, ast.JoinedStr):
                    yield each
                    yield from self._changeable(each)


def _sizes(source: _Source, node: ast.AST) -> Iterator[Edit]:
    noted = (
        source.seen.get(site_of(node))
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        else None
    )
    if (
        noted is None
        or noted.is_other
        or not noted.values
        or isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
    ):
        return
    first = next(iter(noted.values))
    if isinstance(first, torch.dtype):
        if len(noted.values) == 1:
            yield node, str(first)
        return
    yield from _constants(source, node, [each for each in noted.values if isinstance(each, tuple)])


def _constants(source: _Source, node: ast.AST, values: list[tuple[str, Any]]) -> Iterator[Edit]:
    kinds = {kind for kind, _ in values}
    plain = [value for _, value in values]
    text = source.of(node)
    if kinds == {"Size"} or (kinds == {"tuple"} and _makes_like(node)):
        of = f"({source.of(node.args[0])}).shape" if isinstance(node, ast.Call) and _makes_like(node) else f"({text})"
        for shape in _with_constants(of, plain):
            new = f"torch.empty({shape}, dtype=({source.of(node.args[0])}).dtype)" if _makes_like(node) else shape  # type: ignore[attr-defined]
            yield node, new
    elif kinds <= {"int", "float", "bool", "str"} and len(set(plain)) == 1 and plain[0] == plain[0]:
        yield node, f"({plain[0]!r})" if plain[0] not in (float("inf"), -float("inf")) else f"float('{plain[0]}')"


def _with_constants(shape: str, values: list[tuple[int, ...]]) -> Iterator[str]:
    """A shape, each of whose dimensions in turn is the number that it always was."""
    if len({len(value) for value in values}) == 1:
        for dimension, numbers in enumerate(zip(*values, strict=True)):
            if len(set(numbers)) == 1:
                yield f"(*{shape}[:{dimension}], {numbers[0]}, *{shape}[{dimension + 1}:])"


def _makes_like(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _LIKE
        and bool(node.args)
    )


def _loops(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.For | ast.comprehension):
        values = source.of(node.iter)
        most = source.seen.get(site_of(node.iter), Noted()).turns
        is_written_out = isinstance(node.iter, ast.List | ast.Tuple)  # so that it always has as many turns
        if most and not is_written_out:
            yield node.iter, f"__import__('itertools').islice({values}, {most})"
        if not any(isinstance(each, ast.Name) and each.id in _ENDLESS for each in ast.walk(node.iter)):
            yield node.iter, f"[*({values})][:-1]"
    elif isinstance(node, ast.While):
        most = source.seen.get(site_of(node.test), Noted()).turns
        indent, name, test = " " * node.col_offset, f"turns_in_{node.lineno}", source.of(node.test)
        for count in {most, most - 1} - {0, -1}:
            again = source.of(node).replace(test, f"({test}) and next({name}, False)", 1)
            yield node, f"{indent}{name} = iter([True] * {count})\n{indent}{again}"


def _divisors(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        yield node, f"({source.of(node.left)})"
        yield from _one_off(source, node.right)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        yield node.value, "1"
        yield from _one_off(source, node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("div", "div_") and node.args:
            yield node.args[0], "1"
            yield from _one_off(source, node.args[0])
        elif node.func.attr in ("mean", "mean_"):
            yield node.func, f"{source.of(node.func.value)}.sum"


def _indices(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Subscript):
        for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            for index in [each.lower, each.upper] if isinstance(each, ast.Slice) else [each]:
                if index is not None:
                    yield from _one_off(source, index)
                    yield index, "0"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        for each in node.args:
            yield from _one_off(source, each)


def _dtypes(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS:
        yield node, f"({source.of(node.func.value)})"
    if _makes_like(node):
        yield node, f"torch.{node.func.attr.removesuffix('_like')}(({source.of(node.args[0])}).shape)"  # type: ignore[attr-defined]
    for keyword in node.keywords:
        if keyword.arg == "dtype":
            rest = ast.Call(node.func, node.args, [each for each in node.keywords if each is not keyword])
            yield node, ast.unparse(rest)
            yield keyword.value, "torch.float32" if "float64" in source.of(keyword.value) else "torch.float64"


def _signs(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        yield node, f"(({source.of(node.left)}) {_SIGNS[type(node.op)]} ({source.of(node.right)}))"
    elif isinstance(node, ast.AugAssign) and type(node.op) in _SIGNS:
        yield node, f"{source.of(node.target)} {_SIGNS[type(node.op)]}= {source.of(node.value)}"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, f"({source.of(node.operand)})"


def _comparisons(source: _Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        (right,), (op,) = node.comparators, node.ops
        if type(op) in _SWAPPED:
            yield node, f"({source.of(node.left)}) {_SWAPPED[type(op)]} ({source.of(right)})"
        elif isinstance(op, ast.Eq | ast.NotEq):
            yield from _one_off(source, right)


def _one_off(source: _Source, node: ast.expr) -> Iterator[Edit]:
    """One more, and one less; nothing for what is no number."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node, f"({node.value + 1})"
        yield node, f"({node.value - 1})"
    elif not isinstance(node, ast.Constant | ast.Tuple | ast.JoinedStr):
        yield node, f"({source.of(node)} + 1)"
        yield node, f"({source.of(node)} - 1)"
