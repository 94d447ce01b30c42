"""Ranks whose tensors lie on GPUs. With fewer GPUs than ranks, which is what most machines have, they share them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from distlib import Communicator, DeadlockError, RankError, World, torch_distributed
from distlib.collectives import all_reduce
from distlib.worlds.real.mailbox import INLINE_BYTES
from tests.tools.collective_cases import COLLECTIVES, call, inputs

pytestmark = pytest.mark.gpu(1)
RANKS = 3
LARGE = INLINE_BYTES + 1


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Three ranks, each with a GPU or a part of one."""
    with World(RANKS, backend="nccl") as made:
        yield made


def test_each_rank_has_a_card(world: World) -> None:
    cards = torch.cuda.device_count()
    assert world.run(lambda comm: str(comm.device)) == [f"cuda:{rank % cards}" for rank in range(RANKS)]


@pytest.mark.parametrize("length", [0, 3, LARGE])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_a_message_arrives(world: World, length: int, dtype: torch.dtype) -> None:
    def pass_on(comm: Communicator) -> bool:
        numbers = torch.arange(length, device=comm.device) % 2
        incoming = torch.zeros(length, device=comm.device, dtype=dtype)
        comm.exchange((numbers * (comm.rank + 1)).to(dtype), (comm.rank + 1) % RANKS, incoming, (comm.rank - 1) % RANKS)
        return torch.equal(incoming, (numbers * ((comm.rank - 1) % RANKS + 1)).to(dtype))

    assert world.run(pass_on, timeout=100) == [True] * RANKS


def test_parts_that_are_not_contiguous_arrive(world: World) -> None:
    def columns(comm: Communicator) -> list[float]:
        square = torch.full((LARGE, 2), float(comm.rank), device=comm.device)
        if comm.rank == 0:
            comm.send(square[:, 1], 1)
        elif comm.rank == 1:
            comm.recv(square[:, 0], 0)
        return square[-1].tolist()

    assert world.run(columns, timeout=100)[:2] == [[0.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_does_on_gpus_what_it_does_on_processors(world: World, name: str) -> None:
    is_right, options_by_size = COLLECTIVES[name]

    def on_gpu(comm: Communicator, tensors: list[torch.Tensor], options: dict[str, int]) -> torch.Tensor:
        return call(comm, name, [each.to(comm.device) for each in tensors], options).cpu()

    for options in options_by_size(RANKS)[:3]:
        for length in (7, LARGE):
            before = inputs(RANKS, length)
            assert is_right(before, world.run(on_gpu, before, options, timeout=100), options), (options, length)


def test_kernels_that_are_still_in_the_queue_are_waited_for(world: World) -> None:
    """What is sent has been computed, and what comes is there before the next kernel reads it."""

    def after_a_long_kernel(comm: Communicator) -> float:
        matrix = torch.full((4096, 4096), 1.0, device=comm.device)
        for _ in range(8):
            product = matrix @ matrix
        sums = product[0] * (comm.rank + 1)
        all_reduce(comm, sums)
        return float((sums / 4096 - 6).abs().max())

    assert world.run(after_a_long_kernel, timeout=100) == [0.0] * RANKS


def test_a_message_in_the_background(world: World) -> None:
    def both_at_once(comm: Communicator) -> float:
        tensors = [torch.full((LARGE,), float(comm.rank), device=comm.device) for _ in range(4)]
        works = [comm.start(all_reduce, each) for each in tensors]
        for work in works:
            work.wait()
        return float(sum(each.sum() for each in tensors)) / (4 * LARGE)

    assert world.run(both_at_once, timeout=100) == [3.0] * RANKS


def test_torch_distributed_over_the_same_ranks(world: World) -> None:
    def theirs(comm: Communicator) -> float:
        ones = torch.ones(LARGE, device=comm.device)
        with torch_distributed(comm, "gloo") as dist:
            dist.all_reduce(ones)
        return float(ones.mean())

    assert world.run(theirs, timeout=100) == [3.0] * RANKS


def test_a_deadlock_is_named(world: World) -> None:
    def all_receive(comm: Communicator) -> None:
        comm.recv(torch.zeros(LARGE, device=comm.device), (comm.rank + 1) % RANKS)

    with pytest.raises(DeadlockError, match="rank 2"):
        world.run(all_receive, timeout=100)
    assert world.run(lambda comm: comm.rank, timeout=100) == [0, 1, 2]


def test_a_tensor_of_another_device_is_named(world: World) -> None:
    def mixed(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(torch.zeros(3), 1)
        elif comm.rank == 1:
            comm.recv(torch.zeros(3, device=comm.device), 0)

    with pytest.raises(RankError, match="One tensor lies on cpu, the other on cuda"):
        world.run(mixed, timeout=100)


def test_a_world_of_processors_says_what_it_can_not_send() -> None:
    def to_the_card(comm: Communicator) -> None:
        comm.send(torch.zeros(3, device="cuda"), 1 - comm.rank)

    with World(2, backend="gloo") as processors, pytest.raises(RankError, match="expected a dense tensor on cpu"):
        processors.run(to_the_card, timeout=100)


def test_what_the_notebook_has_on_its_card_goes_to_the_ranks_and_comes_back(world: World) -> None:
    weights = torch.arange(4.0, device="cuda")
    layer = torch.nn.Linear(4, 2).cuda()

    def use(comm: Communicator, given: torch.Tensor) -> Any:
        return (given + comm.rank).to(comm.device), layer(given).sum().item()

    for rank, (found, total) in enumerate(world.run(use, weights, timeout=100)):
        assert torch.equal(found.cpu(), weights.cpu() + rank)
        assert total == pytest.approx(layer(weights).sum().item())


def test_the_default_device_is_the_rank_s_own(world: World) -> None:
    with torch.device("cuda"), torch.autocast("cuda", torch.bfloat16):
        made = world.run(lambda comm: (str(torch.ones(1).device), (torch.ones(2, 2) @ torch.ones(2, 2)).dtype))
    cards = torch.cuda.device_count()
    assert made == [(f"cuda:{rank % cards}", torch.bfloat16) for rank in range(RANKS)]
