"""`torch_distributed`: its arguments, the trace of torch's calls, one's own algorithm, and virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed
from torch import nn

from distlib import Cluster, Communicator, Link, RankError, ReduceOp, SimulatedWorld, torch_distributed
from distlib.collectives import naive_all_reduce, ring_all_reduce
from tests.torch_backend.programs import batch, model

_dist: Any = torch.distributed


def one_all_reduce(comm: Communicator) -> float:
    with torch_distributed(comm, all_reduce=ring_all_reduce) as dist:
        dist.all_reduce(tensor := torch.ones(8))
    return tensor.sum().item()


def test_the_trace_has_torchs_calls_and_their_messages(worlds) -> None:
    """A ring of 4 ranks: each sends 2·3 chunks of a quarter of 32 bytes, from the line that calls torch."""
    worlds(4).run(one_all_reduce, timeout=100)
    trace = worlds(4).trace
    assert trace.messages_sent == [6] * 4
    assert trace.bytes_sent == [48] * 4
    assert {message.site.call for message in trace.messages} == {"all_reduce(8 float32, op=SUM)"}
    assert {message.site.function for message in trace.messages} == {"one_all_reduce"}


def counted_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    """A student's own, of two arguments."""
    naive_all_reduce(comm, tensor)


def of_any_op(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    naive_all_reduce(comm, tensor, op)


@pytest.mark.parametrize("own", [counted_ring, of_any_op])
def test_ddp_trains_with_an_all_reduce_of_ones_own(worlds, own) -> None:
    def train(comm: Communicator, all_reduce: Any) -> torch.Tensor:
        with torch_distributed(comm, all_reduce=all_reduce) as dist:
            replica = nn.parallel.DistributedDataParallel(model())
            replica(batch(comm.rank)).square().mean().backward()
            dist.all_reduce(largest := torch.tensor([float(comm.rank)]), op=dist.ReduceOp.MAX)
            dist.all_reduce(mean := torch.tensor([float(comm.rank)]), op=dist.ReduceOp.AVG)
            assert [largest.item(), mean.item()] == [2.0, 1.0]
            return replica.module[0].weight.grad

    with_ring = worlds(3).run(train, None, timeout=100)
    with_own = worlds(3).run(train, own, timeout=100)
    sent = worlds(3).trace.messages_sent
    assert sent[0] > sent[1]  # everything goes to rank 0 and back
    for one, other in zip(with_ring, with_own, strict=True):
        torch.testing.assert_close(one, other)


def test_a_hook_of_ddp_that_waits_for_futures_in_then(worlds) -> None:
    """The function handed to `then` runs as a part of the call that it follows, and may begin another one."""

    def hook(group, bucket):  # torch compares annotations, if there are any, with types
        first = _dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        def average(future: Any) -> torch.Tensor:
            return future.value()[0] / 3

        def sum_up_again(future: Any) -> torch.Tensor:
            return _dist.all_reduce(future.value(), async_op=True).get_future().wait()[0] / 3

        return first.then(average).then(sum_up_again)

    def train(comm: Communicator, hooked: bool) -> torch.Tensor:
        with torch_distributed(comm):
            replica = nn.parallel.DistributedDataParallel(model())
            if hooked:
                replica.register_comm_hook(None, hook)
            replica(batch(comm.rank)).square().mean().backward()
            return replica.module[0].weight.grad

    for world in (worlds(3), SimulatedWorld(3, contexts="threads")):
        for one, other in zip(world.run(train, True), world.run(train, False), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "mpi"}, 'the backends "distlib", "gloo" and "nccl"'),
        ({"backend": "gloo", "all_reduce": counted_ring}, "has an all-reduce of its own"),
        ({"all_reduce": 3}, "expected a function of"),
    ],
)
def test_wrong_arguments(worlds, options: dict[str, Any], words: str) -> None:
    def enter(comm: Communicator) -> None:
        with torch_distributed(comm, **options):
            pass

    with pytest.raises(RankError, match=words):
        worlds(2).run(enter, timeout=100)


def test_only_a_rank_has_such_a_group() -> None:
    with pytest.raises(ValueError, match="communicator of a world"), torch_distributed("comm"):  # type: ignore[arg-type]
        pass
    with pytest.raises(RankError, match='contexts="threads"'):
        SimulatedWorld(2).run(one_all_reduce)


def test_groups_before_and_after_are_others(worlds) -> None:
    def two_times(comm: Communicator) -> list[float]:
        found = []
        for factor in (1.0, 10.0):
            with torch_distributed(comm) as dist:
                pair = dist.new_group([0, 1])
                if comm.rank < 2:
                    dist.all_reduce(tensor := torch.tensor([factor]), group=pair)
                    found.append(tensor.item())
            assert not _dist.is_initialized()
        return found

    assert worlds(3).run(two_times, timeout=100) == [[2.0, 20.0], [2.0, 20.0], []]


# ── virtual time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_simulated_ranks_leave_this_process_its_own_groups() -> None:
    _dist.init_process_group("gloo", store=_dist.HashStore(), rank=0, world_size=1)
    try:
        group = _dist.group.WORLD
        assert SimulatedWorld(3, contexts="threads").run(one_all_reduce) == [24.0] * 3
        assert _dist.group.WORLD is group
    finally:
        _dist.destroy_process_group()


def test_an_all_reduce_costs_what_the_formula_says() -> None:
    """A ring of N ranks: 2(N − 1) rounds, each α + a chunk over B."""
    latency, bandwidth, size = 2e-5, 1e9, 8
    world = SimulatedWorld(size, Cluster.flat(size, Link(latency, bandwidth)), contexts="threads")

    def run(comm: Communicator) -> None:
        with torch_distributed(comm) as dist:
            dist.all_reduce(torch.ones(8000))

    world.run(run)
    assert world.elapsed == pytest.approx(2 * (size - 1) * (latency + 4000 / bandwidth))


def test_a_bucket_travels_while_backward_goes_on() -> None:
    """Two layers' backward passes take 1 s each; the all-reduce of the first bucket takes 2 · (N − 1)/N = 1 s."""

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, tensor: torch.Tensor, comm: Communicator) -> torch.Tensor:
            ctx.comm = comm
            return tensor.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            ctx.comm.sleep(1)
            return gradient, None

    class Layers(nn.Module):
        def __init__(self, comm: Communicator) -> None:
            super().__init__()
            self.comm, self.first, self.second = comm, nn.Linear(64, 64, False), nn.Linear(64, 64, False)

        def forward(self, tensor: torch.Tensor) -> torch.Tensor:
            return self.second(Slow.apply(self.first(Slow.apply(tensor.requires_grad_(), self.comm)), self.comm))

    def run(comm: Communicator) -> float:
        with torch_distributed(comm):
            replica = nn.parallel.DistributedDataParallel(Layers(comm), bucket_cap_mb=1e-5)
            replica(torch.ones(1, 64)).sum().backward()  # in one bucket: torch chooses others after a step
            start = comm.time()
            replica(torch.ones(1, 64)).sum().backward()
            return comm.time() - start

    world = SimulatedWorld(2, Cluster.flat(2, Link(0.0, 64 * 64 * 4)), contexts="threads")
    torch.manual_seed(0)
    assert world.run(run) == [pytest.approx(2.0, abs=0.01)] * 2
