"""What the text of a cell binds, and what that needs: `STEP = 2 * BASE` binds STEP and needs BASE.

Only names of the notebook count. A function's parameters and local variables are its own: where `tensor` is one, a cell
of the notebook that assigns to a `tensor` makes no difference.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from distlib.classroom.uploads.recognize import definitions, normal

_ASSIGNMENT = re.compile(r"^([^\W\d]\w*)\s*(?::[^=\n]*)?=[^=]", re.MULTILINE)
_WORD = re.compile(r"[^\W\d]\w*")
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


@dataclass(frozen=True)
class Binding:
    """A statement of a cell.

    Attributes:
        text: its lines, without what editors change.
        names: what it binds: functions, classes, variables, modules.
        needs: the names of the notebook that it uses, also inside of functions.
    """

    text: str
    names: frozenset[str]
    needs: frozenset[str]


def bindings(source: str) -> list[Binding]:
    """The statements of a cell that bind names, in their order. What is not Python is taken as one statement."""
    for text in (source, _MAGIC.sub("", source)):
        try:
            return [each for each in _statements(text) if each.names]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    names = frozenset([*definitions(source), *_ASSIGNMENT.findall(source)])
    return [Binding(normal(source), names, frozenset(_WORD.findall(source)) - names)] if names else []


def _statements(source: str) -> list[Binding]:
    lines = source.splitlines()
    return [_binding("\n".join(lines[_first(node) - 1 : node.end_lineno])) for node in ast.parse(source).body]


def _first(node: ast.stmt) -> int:
    """The line of a statement, or of its first decorator."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])


def _binding(text: str) -> Binding:
    table = symtable.symtable(text, "cell", "exec")
    symbols = table.get_symbols()
    bound = (each for each in symbols if each.is_assigned() or each.is_imported() or each.is_namespace())
    used = (each for each in symbols if each.is_referenced())
    needs = [*(each.get_name() for each in used), *_globals_in(table)]
    return Binding(normal(text), frozenset(each.get_name() for each in bound), frozenset(needs))


def _globals_in(table: symtable.SymbolTable) -> Iterator[str]:
    """The names of the notebook that functions and classes use."""
    for child in table.get_children():
        yield from (each.get_name() for each in child.get_symbols() if each.is_global())
        yield from _globals_in(child)
