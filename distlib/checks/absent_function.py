"""Why a notebook has no function of a name: its cell is not Python, stops, defines another name, or nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from distlib.checks.remark import Remark
from distlib.checks.sentences import Sentences
from distlib.python_text import NotPython, Version, here, names_made, shown, statements_of, why_not_python

say = Sentences(__file__)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MOST_NAMED = 3


@dataclass(frozen=True)
class AnswerCell:
    """The cell where a function is looked for.

    Attributes:
        function: its name.
        number: of the cell, as messages name it.
        source: its text.
        written_with: the Python of the notebook; None if it does not say.
    """

    function: str
    number: int
    source: str
    written_with: Version | None = None


def why_absent(cell: AnswerCell, stopped: str = "", is_a_value: bool = False) -> Remark:
    """What is seen of a function that is not there.

    Args:
        cell: where it should be.
        stopped: what the cell has raised; "" if it has run to its end.
        is_a_value: whether the name leads to something that can't be called.
    """
    if not cell.source.strip():
        return say.remark("empty", cell=cell.number)
    if problem := why_not_python(cell.source, None, cell.function):
        return _not_python(problem, cell)
    if is_a_value:
        return say.remark("no_function", name=cell.function, cell=cell.number)
    made = names_made(statements_of(cell.source))
    if stopped and cell.function in made:
        return say.remark("stopped", cell=cell.number, stopped=stopped)
    if others := [name for name, value in made.items() if isinstance(value, _DEFINITIONS) and name != cell.function]:
        return say.remark("other_name", names=", ".join(others[:_MOST_NAMED]), cell=cell.number)
    return say.remark("nothing", cell=cell.number)


def _not_python(problem: NotPython, cell: AnswerCell) -> Remark:
    told = {"here": shown(here()), "place": f"cell {cell.number}, line {problem.line}", "why": problem.why}
    if cell.written_with is not None and cell.written_with > here():
        newer = problem.newer or say("some_newer")
        return say.remark("not_python_newer", theirs=shown(cell.written_with), newer=newer, **told)
    return say.remark("not_python_perhaps" if problem.newer else "not_python", newer=problem.newer, **told)
