"""The check that stays on: what it finds, which rank and parameter it names, and that it does not wait forever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator, RankError, World
from distlib.clinic.replica_check import ReplicaCheck, bit_sums, check_samples, who_differs
from distlib.worlds.real.process_group import torch_distributed


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(3) as world:
        yield world


def model_of(rank: int, changed: int = -1) -> nn.Module:
    """The same on every rank, but for the last bit of one weight on rank `changed`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    if rank == changed:
        with torch.no_grad():
            model[1].weight[0, 1] = torch.nextafter(model[1].weight[0, 1], torch.tensor(9.0))  # type: ignore[index]
    return model


def check_once(comm: Communicator, of_torch: bool, changed: int, bad: int = -1) -> float:
    model = model_of(comm.rank, changed)
    model(torch.ones(1, 3)).sum().backward()
    if comm.rank == bad:
        model[0].bias.grad[1] = float("nan")  # type: ignore[index]
    if not of_torch:
        return calls(ReplicaCheck(model, comm, every=2))
    with torch_distributed(comm):
        return calls(ReplicaCheck(model, every=2, timeout=100))


def calls(check: ReplicaCheck) -> float:
    check()
    assert check.grad_norm == 0, "not yet"
    check()
    return check.grad_norm


@pytest.mark.parametrize("of_torch", [True, False])
def test_equal_replicas_pass(world: World, of_torch: bool) -> None:
    norms = world.run(check_once, of_torch, changed=-1)
    assert norms[0] > 0 and norms == [norms[0]] * 3


@pytest.mark.parametrize("of_torch", [True, False])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_last_bit_of_one_weight_is_found(world: World, of_torch: bool, rank: int) -> None:
    with pytest.raises(RankError, match=rf"step 2: 1\.weight has different weights on rank {rank} and on the others"):
        world.run(check_once, of_torch, changed=rank)


@pytest.mark.parametrize("of_torch", [True, False])
def test_a_gradient_that_is_not_finite_is_named(world: World, of_torch: bool) -> None:
    with pytest.raises(RankError, match=r"step 2: rank 1 has a gradient that is not finite, 0\.bias"):
        world.run(check_once, of_torch, changed=-1, bad=1)


def test_a_rank_that_is_in_a_different_step_is_named(world: World) -> None:
    def ahead(comm: Communicator) -> None:
        check = ReplicaCheck(model_of(comm.rank), comm, every=2)
        check.step = 2 if comm.rank == 2 else 0
        check()
        check()

    with pytest.raises(RankError, match=r"not in the same step \(rank 2 differs\): rank 0 is in step 2"):
        world.run(ahead)


def test_a_rank_that_is_missing_ends_the_check(world: World) -> None:
    """Rank 2 waits for the others, in a group without a limit to speak of; the check has a group of its own."""

    def missing(comm: Communicator) -> str:
        with torch_distributed(comm) as dist:
            check = ReplicaCheck(model_of(comm.rank), every=1, timeout=2)
            message = caught(check) if comm.rank < 2 else ""
            dist.barrier()
        return message

    messages = world.run(missing)
    assert "the check of step 1 has waited 2 s. [Rank 0]: Ranks 2 failed to pass monitoredBarrier" in messages[0]
    assert "the check of step 1 has waited 2 s." in messages[1]


def caught(check: ReplicaCheck) -> str:
    try:
        check()
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("of_torch", [True, False])
def test_samples_that_are_seen_never_or_twice_are_named(world: World, of_torch: bool) -> None:
    def epoch(comm: Communicator, parts: list[list[int]]) -> None:
        if not of_torch:
            return check_samples(parts[comm.rank], 6, comm)
        with torch_distributed(comm):
            check_samples(parts[comm.rank], 6, timeout=100)

    world.run(epoch, [[0, 3], [1, 4], [2, 5]])
    with pytest.raises(RankError, match=r"2 of 6 samples were not seen once: sample 0: 2 times \(ranks 0 and 1\)"):
        world.run(epoch, [[0, 3], [1, 0], [2, 5]])
    with pytest.raises(RankError, match=r"sample 4: 0 times\. Does each"):
        world.run(epoch, [[0, 3], [1, 0], [2, 5]])


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.bool]
)
def test_any_dtype_has_a_sum_and_a_change_changes_it(dtype: torch.dtype) -> None:
    one: Any = torch.tensor([[1, 0], [1, 1]]).to(dtype)
    other = one.clone()
    other[0, 1] = 1
    assert bit_sums([one]) == bit_sums([one.t().clone().t()])  # wherever in memory the numbers stand
    assert bit_sums([one]) != bit_sums([other])


def test_who_differs() -> None:
    assert who_differs([5, 5, 5]) == []
    assert who_differs([5, 6, 5]) == [1]
    assert who_differs([6, 5, 5]) == [0]
    assert who_differs([5, 6]) == [1]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"timeout": 0.5}])
def test_arguments_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least 1 each"):
        ReplicaCheck(nn.Linear(1, 1), **wrong)  # type: ignore[arg-type]
