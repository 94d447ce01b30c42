"""Mistakes in programs of plain torch: ranks, line and cause in one message, in a World and in virtual time."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from distlib import (
    Communicator,
    DeadlockError,
    MessageMismatch,
    RankError,
    SimulatedWorld,
    World,
    all_reduce,
    torch_distributed,
)
from tests.torch_backend.programs import model


@pytest.fixture(params=["World", "SimulatedWorld"])
def world(request, worlds) -> World | SimulatedWorld:
    return worlds(3) if request.param == "World" else SimulatedWorld(3, contexts="threads")


def told(world: World | SimulatedWorld, program: Callable[[Communicator, Any], Any], kind: type[Exception]) -> str:
    """What the world says of a program of (comm, dist)."""

    def run(comm: Communicator) -> Any:
        with torch_distributed(comm) as dist:
            return program(comm, dist)

    with pytest.raises(kind) as caught:
        world.run(run, timeout=100)
    return str(caught.value)


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of this file on which `function` has `text`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def different_roots(comm: Communicator, dist: Any) -> None:
    dist.broadcast(torch.ones(3), src=comm.rank % 2)


def different_reductions(comm: Communicator, dist: Any) -> None:
    dist.all_reduce(torch.ones(3), op=dist.ReduceOp.MAX if comm.rank == 1 else dist.ReduceOp.SUM)


def different_layouts(comm: Communicator, dist: Any) -> None:
    images = torch.ones(1, 2, 3, 4)
    dist.all_reduce(images.contiguous(memory_format=torch.channels_last) if comm.rank == 1 else images)


def different_lengths(comm: Communicator, dist: Any) -> None:
    dist.all_reduce(torch.ones(3 + (comm.rank > 0)))


def different_calls(comm: Communicator, dist: Any) -> None:
    if comm.rank == 0:
        dist.broadcast(torch.ones(3), 0)
    else:
        dist.all_reduce(torch.ones(3))


def different_order_of_groups(comm: Communicator, dist: Any) -> None:
    first, second = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 2])
    for group in (first, second) if comm.rank == 0 else (second, first):
        dist.all_reduce(torch.ones(3), group=group)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (different_roots, ("broadcast(3 float32, src=0)", "broadcast(3 float32, src=1)")),
        (different_reductions, ("op=SUM", "op=MAX")),
        (different_layouts, ("with strides (24, 1, 8, 2)",)),
        (different_lengths, ("all_reduce(3 float32, op=SUM)", "all_reduce(4 float32, op=SUM)")),
        (different_calls, ("broadcast(3 float32, src=0)", "all_reduce(3 float32, op=SUM)")),
        (different_order_of_groups, ("op=SUM, group=1)", "op=SUM, group=2)", "alike, but not in the same group")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_ranks_that_do_not_make_the_same_call(world, program, words: tuple[str, ...]) -> None:
    message = told(world, program, RankError)
    assert all(word in message for word in words)
    assert message.startswith("test_diagnosis.py, line ")


def uneven_steps(comm: Communicator, dist: Any) -> None:
    replica = nn.parallel.DistributedDataParallel(model())
    for _ in range(2 + comm.rank % 2):
        replica(torch.ones(2, 8)).sum().backward()


def test_a_rank_with_one_step_more_than_the_others(world) -> None:
    message = told(world, uneven_steps, DeadlockError)
    assert f"line {line_of(uneven_steps, 'backward()')}" in message
    assert "has already returned" in message


def a_call_less(comm: Communicator, dist: Any) -> None:
    for _ in range(3 - (comm.rank == 2)):
        dist.all_reduce(torch.ones(3))
    dist.barrier()


def test_a_collective_that_meets_a_barrier(world) -> None:
    message = told(world, a_call_less, DeadlockError)
    assert "barrier" in message and "all_reduce(3 float32, op=SUM)" in message


def fails_in_backward(comm: Communicator, dist: Any) -> None:
    replica = nn.parallel.DistributedDataParallel(model())
    if comm.rank == 1:
        dist.all_reduce(torch.ones(7))
    replica(torch.ones(2, 8)).sum().backward()


def test_what_a_bucket_of_ddp_meets_is_said_as_it_is(world) -> None:
    """The all-reduce of a bucket runs in the background, and C++ waits for it."""
    message = told(world, fails_in_backward, MessageMismatch)
    assert "all_reduce(7 float32, op=SUM)" in message
    assert f"line {line_of(fails_in_backward, 'ones(7)')}" in message


def raises_in_a_hook(comm: Communicator, dist: Any) -> None:
    replica = nn.parallel.DistributedDataParallel(model())
    if comm.rank == 1:
        replica.module[0].weight.register_hook(lambda gradient: gradient / 0 // "x")
    replica(torch.ones(2, 8)).sum().backward()


def test_an_error_inside_backward(world) -> None:
    assert "rank 1 raised TypeError" in told(world, raises_in_a_hook, RankError)


def hands_a_dtensor_over(comm: Communicator, dist: Any) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = dist.device_mesh.init_device_mesh("cpu", (3,))
    dist.all_reduce(distribute_tensor(torch.ones(6), mesh, [Shard(0)]))


def hands_ours_a_dtensor(comm: Communicator, dist: Any) -> None:
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = dist.device_mesh.init_device_mesh("cpu", (3,))
    all_reduce(comm, distribute_tensor(torch.ones(6), mesh, [Shard(0)]))


def begins_twice(comm: Communicator, dist: Any) -> None:
    dist.init_process_group("gloo")


def quantized(comm: Communicator, dist: Any) -> None:
    dist.all_reduce(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))


def averages_integers(comm: Communicator, dist: Any) -> None:
    dist.all_reduce(torch.ones(3, dtype=torch.int64), op=dist.ReduceOp.AVG)


def combines_bits(comm: Communicator, dist: Any) -> None:
    dist.all_reduce(torch.ones(3, dtype=torch.int64), op=dist.ReduceOp.BAND)


def gathers_into_too_little(comm: Communicator, dist: Any) -> None:
    dist.all_gather([torch.zeros(2)] * 2, torch.ones(2))


@pytest.mark.filterwarnings("ignore:.*quant.*")
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (hands_a_dtensor_over, "tensor.to_local()"),
        (hands_ours_a_dtensor, "tensor.to_local()"),
        (begins_twice, "initialize the default process group twice"),
        (quantized, "quantized"),
        (averages_integers, "convert to float first"),
        (combines_bits, "has the reductions SUM, AVG, PRODUCT, MIN, MAX"),
        (gathers_into_too_little, "expected a list of 3 tensors, one for each rank, got 2"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_a_rank_can_see_for_itself(world, program, words: str) -> None:
    message = told(world, program, RankError)
    assert words in message
    assert "test_diagnosis.py, line" in message


def ends_too_early(comm: Communicator, dist: Any) -> float:
    work = dist.all_reduce(tensor := torch.ones(3), async_op=True)
    dist.destroy_process_group()
    work.wait()
    return tensor.sum().item()


def test_the_group_ends_in_the_middle_of_a_call(world) -> None:
    """The messages are the communicator's, which is still there."""

    def run(comm: Communicator) -> float:
        with torch_distributed(comm) as dist:
            return ends_too_early(comm, dist)

    assert world.run(run, timeout=100) == [9.0] * 3


def test_rank_0_names_who_has_not_come_to_a_monitored_barrier(worlds) -> None:
    def run(comm: Communicator) -> str:
        with torch_distributed(comm) as dist:
            said = ""
            if comm.rank != 1:
                try:
                    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.2 + 60 * (comm.rank > 0)))
                except RuntimeError as error:
                    said = str(error)
            dist.barrier()
            return said

    first, second, third = worlds(3).run(run, timeout=100)
    assert first == "Rank 1 failed to pass monitoredBarrier in 200 ms"
    assert second == ""
    assert "check rank 0" in third


def test_the_group_itself_has_the_monitored_barrier(worlds) -> None:
    def run(comm: Communicator) -> str:
        with torch_distributed(comm) as dist:
            dist.group.WORLD.monitored_barrier()
            if comm.rank == 0:
                with pytest.raises(RuntimeError) as caught:
                    dist.group.WORLD.monitored_barrier(datetime.timedelta())
            dist.barrier()
            return str(caught.value) if comm.rank == 0 else ""

    first, *_ = worlds(3).run(run, timeout=100)
    assert first.startswith("Rank 0 timed out in monitoredBarrier")
