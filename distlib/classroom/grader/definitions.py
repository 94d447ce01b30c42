"""Which definition counts where a notebook has several of one function: an old try, a copied cell, a cell of one's own.

    [def ring]   [def ring]   [test of ring]   [def ring]
     an older     counts                        an old try further down

The last one above the function's first test counts: it is what the test has seen when all cells run in their order.
What is still a stub does not count where something else is written. Where none stands above a test, the last counts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.words import joined


@dataclass(frozen=True)
class Definitions:
    """The cells of a notebook that define one function.

    Attributes:
        function: its name.
        cells: their indices, in the notebook's order.
        counts: the index of the one that counts.
        why: it counts, after "Cell 4 counts: ".
        numbers: of the cells, counting the notebook's code cells from 1.
    """

    function: str
    cells: tuple[int, ...]
    counts: int
    why: str
    numbers: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """Those that do not count."""
        return tuple(index for index in self.cells if index != self.counts)

    @property
    def remark(self) -> str:
        """What student and instructor are told; "" if there is only one."""
        if not self.others:
            return ""
        amount = "two" if len(self.cells) == 2 else str(len(self.cells))
        *first, last = map(str, self.numbers)
        number = self.number(self.counts)
        where = f"code cells {', '.join(first)} and {last} from the top"
        return f"{self.function} is defined in {amount} cells, {where}. Cell {number} counts: {self.why}."

    @property
    def advice(self) -> str:
        """The remark, and what a student should do about it; "" if there is only one."""
        return f"{self.remark} Delete what you don't want." if self.remark else ""

    def number(self, index: int) -> int:
        """The number of a cell with this index, counting the notebook's code cells from 1."""
        return self.numbers[self.cells.index(index)]


def find_definitions(
    cells: Sequence[HandedCell], function: str, test: int | None, candidates: Collection[int]
) -> Definitions | None:
    """The definitions of a function, and which one counts; None if there is none.

    Args:
        cells: of the notebook.
        function: its name.
        test: the index of its first test; None if the notebook has none.
        candidates: the indices of cells that may define it.
    """
    found = [index for index in sorted(candidates) if defines(cells[index], function)]
    if not found:
        return None
    end = len(cells) if test is None else test
    written = [index for index in found if is_written(cells[index])] or found
    above = [index for index in written if index < end]
    counts = (above or written)[-1]
    numbers = tuple(sum(cell.kind == "code" for cell in cells[:index]) + 1 for index in found)
    stubs = [] if written == found else [index for index in found if index not in written]
    stubs_above = [index for index in stubs if index < end]
    later = [number for index, number in zip(found, numbers, strict=True) if counts < index and index in stubs_above]
    if above and later:
        why = f"{'cell' if len(later) == 1 else 'cells'} {joined(list(map(str, later)))} {_are(later)} not written yet"
    elif stubs_above and not above:
        why = f"the {'one' if len(stubs_above) == 1 else 'ones'} above the test {_are(stubs_above)} not written yet"
    elif above and test is not None:
        why = "it is the last one above its test"
    else:
        why = "it is the last one" if test is None else "it is the last one; none stands above its test"
    return Definitions(function, tuple(found), counts, why, numbers)


def _are(things: Sequence[object]) -> str:
    return "is" if len(things) == 1 else "are"


def definitions_in(cells: Sequence[HandedCell], functions: Sequence[str]) -> dict[str, Definitions]:
    """The definitions of each function in a notebook alone, without the instructor's to compare it with.

    Args:
        cells: of the notebook.
        functions: names. One that no cell defines is left out.
    """
    candidates = [index for index, cell in enumerate(cells) if cell.mark.get("solution") or not cell.mark]
    found = (find_definitions(cells, name, first_test(cells, name), candidates) for name in functions)
    return {each.function: each for each in found if each}


def several(cells: Sequence[HandedCell], functions: Sequence[str]) -> list[Definitions]:
    """Of `definitions_in`, the functions that are defined in more than one cell."""
    return [each for each in definitions_in(cells, functions).values() if each.others]


def first_test(cells: Sequence[HandedCell], function: str) -> int | None:
    """The index of the first test cell of a function, by its name or its id."""
    names = tests_of(function)
    return next((i for i, cell in enumerate(cells) if names & {cell.grade_id, cell.cell_id}), None)


def tests_of(function: str) -> set[str]:
    """The names of a function's test cells."""
    return {f"{function}_visible", f"{function}_hidden"}


def defines(cell: HandedCell, function: str) -> bool:
    """Whether a cell defines a function or class of this name at its left margin, or assigns to the name."""
    name = re.escape(function)
    definition = rf"^(?:(?:async\s+)?def\s+{name}\b|class\s+{name}\b|{name}\s*(?::[^=\n]*)?=[^=])"
    is_code = cell.kind == "code" or cell.grade_id == function
    return is_code and bool(re.search(definition, cell.source, re.MULTILINE))


def is_written(cell: HandedCell) -> bool:
    """Whether a student has written something into a cell."""
    return bool(cell.source.strip()) and not cell.is_as_released and not (cell.kind == "code" and is_stub(cell.source))


def is_stub(source: str) -> bool:
    """Whether all that the functions of a cell do is `raise NotImplementedError()`, docstrings apart."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return bool(functions) and all(raises_not_implemented(node) for each in functions for node in _body(each))


def raises_not_implemented(node: ast.AST) -> bool:
    """Whether a statement is `raise NotImplementedError()`."""
    raised = node.exc if isinstance(node, ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body
