"""Collectives and messages inside torch.compile: the right values, breaks in the graph, and no word of warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from distlib import Communicator, SimulatedWorld, World, all_reduce, broadcast
from distlib.worlds import not_compiled, private_torch

BREAK = "Attempted to call function marked as skipped"


def compute(comm: Communicator, x: torch.Tensor) -> torch.Tensor:
    mine = x * (comm.rank + 1.0)
    all_reduce(comm, mine)
    other = torch.zeros(2)
    comm.exchange(mine + comm.rank, 1 - comm.rank, other, 1 - comm.rank)
    broadcast(comm, other, root=1)
    return other * 2


def both_ways(comm: Communicator) -> tuple[list[torch.Tensor], list[str]]:
    step = torch.compile(compute, backend="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen = [step(comm, torch.full((2,), start)) for start in (1.0, 2.0)]
    right = [compute(comm, torch.full((2,), start)) for start in (1.0, 2.0)]
    reasons = [*torch._dynamo.utils.counters["graph_break"]]  # type: ignore[attr-defined]
    ours = [str(each.message) for each in caught if "distlib" in f"{each.message} {each.filename}"]
    assert all(torch.equal(*pair) for pair in zip(seen, right, strict=True))
    return seen, [*ours, *(each for each in reasons if not each.startswith((BREAK, "Attempted to inline function")))]


@pytest.mark.slow
def test_on_processes() -> None:
    printed: list[str] = []
    with World(2, on_output=lambda rank, stream, text: printed.append(text)) as world:
        results = world.run(both_ways, timeout=300)
    check(results)
    assert printed == []


@pytest.mark.slow
def test_in_simulated_time() -> None:
    check(SimulatedWorld(2).run(both_ways, timeout=300))


def check(results: list[tuple[list[torch.Tensor], list[str]]]) -> None:
    for seen, strange in results:
        assert [each.tolist() for each in seen] == [[6.0, 6.0], [12.0, 12.0]]
        assert strange == []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a process tells a compiler that it has just imported."""
    names: list[str] = []
    monkeypatch.setitem(sys.modules, private_torch.RULES_OF_COMPILER, SimpleNamespace(add=names.append))
    not_compiled._tell.cache_clear()
    yield names
    not_compiled._tell.cache_clear()


def test_the_compiler_is_told_once(told: list[str]) -> None:
    """Told in every run, torch's pattern of all files got longer by eight, and the thousandth run took a second."""
    for _ in range(3):
        SimulatedWorld(2).run(lambda comm: comm.rank)
    assert "distlib.collectives" in told
    assert len(told) == len(set(told))
