"""Ranks that are in different calls because one of them has made a call too many before: the line of that is told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from distlib import Communicator, MessageMismatch, RankError, SimulatedWorld, World, all_reduce, broadcast


def too_many(comm: Communicator) -> None:
    loss = torch.ones(4)
    for step in range(3):
        all_reduce(comm, loss)  # of the step
        if comm.rank == 0 and step == 1:
            all_reduce(comm, loss)  # too many
    broadcast(comm, torch.ones(5))


def in_branches(comm: Communicator) -> None:
    """Lines that always meet, and then another fault."""
    for _ in range(3):
        if comm.rank == 0:
            all_reduce(comm, torch.ones(4))
        else:
            all_reduce(comm, torch.ones(4))
    all_reduce(comm, torch.ones(4 + comm.rank))


@pytest.fixture(params=["World", "SimulatedWorld"])
def world(request: pytest.FixtureRequest, worlds: Any) -> World | SimulatedWorld:
    return worlds(2) if request.param == "World" else SimulatedWorld(2)


def line(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_odd_pairs.py, line {first + next(n for n, line in enumerate(lines) if text in line)}"


def test_a_call_too_many_is_found_where_it_was_made(world: World | SimulatedWorld) -> None:
    with pytest.raises(RankError) as caught:
        world.run(too_many)
    note = str(caught.value).partition("\nNote: ")[2]
    assert note == (
        f'before that, all_reduce(4 float32, op=SUM, algorithm="ring") was called at {line(too_many, "# too many")} '
        f"on rank 0 and at {line(too_many, '# of the step')} on rank 1. Was one of these too many?"
    )


def test_branches_are_no_sign_of_it(world: World | SimulatedWorld) -> None:
    with pytest.raises(MessageMismatch, match="same collective calls") as caught:
        world.run(in_branches)
    assert "Note:" not in str(caught.value)
