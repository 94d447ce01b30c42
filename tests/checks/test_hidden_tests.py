"""A hidden test is never weaker than the visible one: whatever kind of case the visible one plays, it plays, too.

Test cells are run without playing anything: only the cases that they ask for are made. A kind is what can be told of a
case without its numbers: how many ranks, what is played, which words, dtypes and switches its facts hold.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

import distlib
from distlib.checks.case import Case
from distlib.checks.task import Draw, Task
from distlib.frameworks.optional import is_there
from distlib.judge.remote.frameworks import frameworks_in
from tests.answers_fast import ROOT, Cell, _NoWorld, cells_of

EXERCISES = sorted(path.name for path in (ROOT / "solutions").glob("[0-9]*"))
NAMES = ("title", "name", "missing", "tasks", "nodes", "axis")  # facts that are words, but no kinds
ASKED_BY_SIZE = ("limit", "messages")  # facts of a case that say what is asked for with this number of ranks
GRADED = {
    name: [cell.name.removesuffix("_visible") for cell in cells_of(name, ROOT) if cell.name.endswith("_visible")]
    for name in EXERCISES
}


class _WithoutAsserts(ast.NodeTransformer):
    """What is asserted is computed, whether or not it is true or can be computed: it may call a check."""

    def visit_Assert(self, node: ast.Assert) -> ast.Try:
        tried = ast.parse("try: ...\nexcept Exception: ...").body[0]
        assert isinstance(tried, ast.Try)
        tried.body = [ast.copy_location(ast.Expr(node.test), node)]
        return ast.copy_location(tried, node)


def cases_of(cells: list[Cell], name: str, monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases that the test cell of this name asks for."""
    found: list[Case] = []

    def note(self: Task, function: object, *, seed: int = 1, **options: Any) -> MagicMock:
        found.extend(self.cases(Draw(seed), **options))
        return MagicMock()

    monkeypatch.setattr(Task, "__call__", note)
    monkeypatch.setattr(distlib, "World", _NoWorld)
    monkeypatch.setattr(distlib, "SimulatedWorld", _NoWorld)
    namespace: dict[str, Any] = {"__name__": "__main__", "print": lambda *args: None}
    for cell in cells:
        if cell.is_solution:
            namespace[cell.name] = MagicMock(__name__=cell.name)
        elif cell.points is None and not frameworks_in(cell.source):
            exec(cell.source, namespace)
        elif cell.name == name:
            exec(
                compile(ast.fix_missing_locations(_WithoutAsserts().visit(ast.parse(cell.source))), name, "exec"),
                namespace,
            )
    return found


def kinds(case: Case) -> Iterator[tuple[Any, ...]]:
    """What can be told of a case without its numbers."""
    yield ("ranks", case.world_size)
    yield ("play", case.play.__name__)
    facts = case.facts
    pairs = vars(facts).items() if dataclasses.is_dataclass(facts) and not isinstance(facts, type) else ()
    for name, value in pairs:
        if name in ASKED_BY_SIZE:
            yield (name, case.world_size, str(value))
        elif isinstance(value, str | torch.dtype) and name not in NAMES:
            yield (name, value)
        elif isinstance(value, bool) or (value is not None and name in ("root", "columns")):
            yield (name, bool(value))


def functions() -> Iterator[Any]:
    """Exercise and function of each test."""
    for exercise, graded in GRADED.items():
        for each in graded:
            marks = [pytest.mark.slow] if each == "fabric_train" else []  # it trains
            yield pytest.param(exercise, each, id=each if exercise[:2] != "14" else f"{each}_jax", marks=marks)


@pytest.mark.parametrize(("exercise", "function"), list(functions()))
def test_what_the_visible_test_asks_the_hidden_one_asks_too(
    exercise: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(exercise, ROOT)
    for framework in frameworks_in("\n".join(cell.source for cell in cells)):
        if not is_there(framework):  # which does not import it: other tests of this process look at what is imported
            pytest.skip(f"needs {framework}")
    asked = {}
    for kind in ("visible", "hidden"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["test"])
            asked[kind] = {each for case in cases_of(cells, f"{function}_{kind}", patch) for each in kinds(case)}
    assert asked["visible"]
    assert sorted(map(str, asked["visible"] - asked["hidden"])) == []
