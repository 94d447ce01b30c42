"""Programs of plain torch compute the same on the backend "distlib" as on gloo, in a World and in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from distlib import Communicator, RankError, SimulatedWorld, torch_distributed
from tests.torch_backend.programs import PROGRAMS, Program, checkpoint, counted, ddp, model

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated. Please use.*:FutureWarning")


def run(comm: Communicator, program: Program, backend: str, *args: Any) -> Any:
    with torch_distributed(comm, backend) as dist:
        return program(dist, *args)


def assert_alike(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    else:
        assert ours == theirs


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_computes_what_gloo_computes(worlds, program: Program) -> None:
    try:
        theirs = worlds(4).run(run, program, "gloo", timeout=100)
    except RankError as error:  # torch 2.8's gloo has no all-to-all
        assert "does not support alltoall" in str(error)
        theirs = SimulatedWorld(4, contexts="threads").run(run, program, "distlib", timeout=100)
    assert_alike(worlds(4).run(run, program, "distlib", timeout=100), theirs)
    assert_alike(SimulatedWorld(4, contexts="threads").run(run, program, "distlib", timeout=100), theirs)


def test_torch_counts_what_it_counts_with_gloo(worlds) -> None:
    """Not in virtual time: CommDebugMode follows modules by hooks that all threads of a process share."""
    theirs = worlds(4).run(run, counted, "gloo", timeout=100)
    assert worlds(4).run(run, counted, "distlib", timeout=100) == theirs


def test_a_distributed_checkpoint(worlds, tmp_path) -> None:
    for parameters in worlds(4).run(run, checkpoint, "distlib", str(tmp_path / "saved"), timeout=100):
        assert_alike(parameters, [each.detach() for each in model(0).parameters()])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ddp_on_other_numbers_of_ranks(worlds, size: int) -> None:
    theirs = worlds(size).run(run, ddp, "gloo", timeout=100)
    assert_alike(worlds(size).run(run, ddp, "distlib", timeout=100), theirs)


def average(comm: Communicator, backend: str, lengths: list[int]) -> list[torch.Tensor]:
    found = []
    with torch_distributed(comm, backend) as dist:
        for length in lengths:
            tensor = torch.randn(length, generator=torch.Generator().manual_seed(comm.rank))
            dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
            found.append(tensor)
    return found


def test_two_ranks_sum_up_in_the_only_order_there_is(worlds) -> None:
    """So the result is gloo's to the last bit."""
    lengths = [1, 2, 3, 1000, 4097]
    ours = worlds(2).run(average, "distlib", lengths, timeout=100)
    theirs = worlds(2).run(average, "gloo", lengths, timeout=100)
    assert all(
        torch.equal(a, b) for mine, other in zip(ours, theirs, strict=True) for a, b in zip(mine, other, strict=True)
    )


def sparse(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    with torch_distributed(comm) as dist:
        table = torch.nn.Embedding(10, 2, sparse=True)
        torch.nn.init.constant_(table.weight, 1.0)
        replica = torch.nn.parallel.DistributedDataParallel(table)
        replica(torch.tensor([comm.rank, 9])).sum().backward()
        alone = torch.sparse_coo_tensor([[comm.rank]], [1.0], (4,))
        dist.all_reduce(alone)
        return table.weight.grad.to_dense(), alone.to_dense()


def test_sparse_gradients(worlds) -> None:
    for gradient, alone in worlds(3).run(sparse, timeout=100):
        assert gradient[:, 0].tolist() == pytest.approx([1 / 3] * 3 + [0] * 6 + [1.0])
        assert alone.tolist() == [1.0, 1.0, 1.0, 0.0]


def averages(comm: Communicator) -> list[float]:
    with torch_distributed(comm) as dist:
        dist.all_reduce(tensor := torch.tensor([float(comm.rank)]), op=dist.ReduceOp.AVG)
        dist.reduce_scatter_tensor(part := torch.zeros(1), torch.arange(3.0) + comm.rank, op=dist.ReduceOp.AVG)
        dist.reduce(other := torch.tensor([comm.rank + 1.0]), dst=0, op=dist.ReduceOp.AVG)
        dist.reduce_scatter_tensor(most := torch.zeros(1), torch.arange(3.0) + comm.rank, op=dist.ReduceOp.MAX)
        return [tensor.item(), part.item(), other.item(), most.item()]


def test_reductions_that_not_every_gloo_has(worlds) -> None:
    expected = [[1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 2.0, 3.0], [1.0, 3.0, 3.0, 4.0]]
    assert worlds(3).run(averages, timeout=100) == expected
