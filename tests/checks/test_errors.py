"""What students read when their function stops with an error: one mistake for each sentence that no answer earns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from distlib import PeerLost
from distlib.checks import CheckFailed
from distlib.checks.errors import explain_error
from distlib.checks.venues import simulated_only
from distlib.exercises.messages.checks import check_shift
from distlib.worlds.diagnosis import TooMuchOutput, how_it_ended
from tests.heard import tells


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with simulated_only():
        yield


def told(function: Callable[..., Any]) -> str:
    """What the student of this shift reads."""
    with pytest.raises(CheckFailed) as caught:
        check_shift(function, world_sizes=(2,), lengths=(4,), messages=lambda n: [1] * n, rounds=lambda n: 1)
    return str(caught.value)


def fails(line: str, **names: Any) -> str:
    """What the student reads whose function has this line, with `comm` and `tensor`."""
    names["torch"] = torch
    return told(lambda comm, tensor: exec(line, names, {"comm": comm, "tensor": tensor}))


def test_a_name_that_is_not_there() -> None:
    assert tells(fails("print(world_size)"), "checks/errors.txt: name_world_size")
    assert tells(fails("print(rank)"), "checks/errors.txt: name_rank")
    assert tells(fails("print(dist)"), "checks/errors.txt: name_dist")
    assert tells(fails("neighbor_of_mine()"), "checks/errors.txt: not_defined")


def test_a_value_that_is_not_there() -> None:
    def only_sometimes(comm: Any, tensor: torch.Tensor) -> None:
        if comm.rank > 5:
            neighbor = 1
        comm.send(tensor, neighbor)

    assert tells(told(only_sometimes), "checks/errors.txt: no_value")
    assert tells(fails("tensor.tensor_split(2)[0] += 1"), "checks/errors.txt: tuple_entry")
    assert tells(fails("tensor[0, 0, 0]"), "checks/errors.txt: too_many_indices")
    assert tells(fails("assert comm.rank == 7"), "checks/errors.txt: assertion")


def test_a_number_in_the_place_of_a_tensor() -> None:
    assert tells(fails("comm.recv(0)"), "checks/errors.txt: nothing_to_receive_into")


def test_gradients() -> None:
    layer = torch.nn.Linear(2, 2)
    assert tells(fails("layer.weight += 1", layer=layer), "checks/errors.txt: leaf_in_place")
    assert tells(fails("layer.grad", layer=layer), "checks/errors.txt: grad_of_model")


def test_a_function_that_is_not_written() -> None:
    assert tells(fails("raise NotImplementedError()"), "checks/errors.txt: not_written")


def test_limits_of_real_ranks() -> None:
    remark = explain_error(TooMuchOutput("rank 0 printed more than 10 MB"))
    assert tells(remark.seen, "checks/errors.txt: too_much_output")
    assert tells(remark.cause, "checks/errors.txt: print_in_loop")
    gone = explain_error(PeerLost(f"rank 1 has ended: {how_it_ended(3)}"))
    assert tells(gone.cause, "checks/errors.txt: exited")
    assert tells(explain_error(TypeError("cannot pickle a lock")).seen, "checks/errors.txt: not_sent")
