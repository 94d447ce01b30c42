"""Cases that are drawn once for all answers: they are those that a check draws, and each process has them once."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest

from distlib.checks.case import Case
from distlib.checks.plays.calls import call
from distlib.checks.task import Draw, task
from tests import drawn_cases
from tests.drawn_cases import Remembered, remember_cases

CELL = """
from tests.test_drawn_cases import check_doubled

check_doubled(doubled, sizes=range(3), seed=5)
assert False, "a test cell ends with its check"
"""


@task("numbers")
def check_doubled(draw: Draw, *, sizes: list[int]) -> Iterator[Case]:
    """Its cases say in which process they were drawn."""
    for size in sizes:
        title = multiprocessing.current_process().name
        yield Case(title, call, [{"numbers": [draw.random() for _ in range(size)]}], None)


@pytest.fixture
def _drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cases of this file's check are drawn, however quickly."""
    monkeypatch.setattr(drawn_cases, "LONG", -1.0)
    before = check_doubled.cases
    remember_cases([compile(CELL, "cell", "exec")])
    yield
    check_doubled.cases = before


def inputs(seed: int, **options: Any) -> tuple[str, list[Any]]:
    """Where the check's cases were drawn, and their inputs."""
    found = list(check_doubled.cases(Draw(seed), **options))
    return found[0].title, [case.inputs for case in found]


@pytest.mark.usefixtures("_drawn")
def test_cases_are_drawn_elsewhere_and_given_once() -> None:
    here = multiprocessing.current_process().name
    first, again = inputs(5, sizes=range(3)), inputs(5, sizes=range(3))
    assert first[0] != here and again[0] == here
    assert first[1] == again[1]


@pytest.mark.usefixtures("_drawn")
def test_another_seed_and_other_options_are_drawn_here() -> None:
    here = multiprocessing.current_process().name
    assert inputs(6, sizes=range(3))[0] == here
    assert inputs(5, sizes=[0, 1, 2])[0] == here


@pytest.mark.usefixtures("_drawn")
def test_what_is_drawn_is_not_drawn_again() -> None:
    assert isinstance(check_doubled.cases, Remembered)
    (known,) = check_doubled.cases.drawn.values()
    remember_cases([compile(CELL, "cell", "exec")])
    assert [*check_doubled.cases.drawn.values()] == [known] and next(iter(check_doubled.cases.drawn.values())) is known


def test_a_cell_that_needs_more_than_functions_draws_for_itself() -> None:
    remember_cases([compile("unknown.sizes()\n" + CELL, "cell", "exec")])
    assert not isinstance(check_doubled.cases, Remembered)
