"""One transformer layer on N ranks in virtual time: when a rank computes, and when it communicates.

    forward      compute   all-reduce   compute   all-reduce          two blocks: attention, MLP
    backward     compute   all-reduce   compute   all-reduce          each computes twice as long

Tensors have shapes but no numbers (torch's meta device), and in the place of a block a rank sleeps for as long as it
would compute. Nothing overlaps: real systems hide a part of the all-reduces (see the lesson's reading on asynchronous
tensor parallelism), so these are upper bounds. The messages are those of `copy_to_ranks` and `sum_over_ranks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from distlib.communicator import Communicator
from distlib.network import Cluster
from distlib.training.tensor_parallel.operators import copy_to_ranks, sum_over_ranks
from distlib.worlds.simulated.simulator import SimulatedWorld


class Stretch(NamedTuple):
    """A part of a step: what a rank does ("forward", "backward" or "communication"), from when to when, in seconds."""

    kind: str
    start: float
    end: float


def layer_stretches(
    cluster: Cluster, shape: Sequence[int], seconds: float, dtype: torch.dtype = torch.bfloat16
) -> list[Stretch]:
    """Forward and backward through a layer, as rank 0 of a cluster sees it; together they cover the whole time.

    Args:
        cluster: all its ranks share the layer.
        shape: of its input and output, [batch, sequence, features].
        seconds: that one device takes for the whole layer, forward; backward it takes twice as long.
        dtype: of what is sent.
    """
    simulated = SimulatedWorld(cluster.world_size, cluster, contexts="threads")
    stretches: list[Stretch] = simulated.run(_go_through, shape, seconds, dtype)[0]
    return stretches


def _go_through(comm: Communicator, shape: Sequence[int], seconds: float, dtype: torch.dtype) -> list[Stretch]:
    spent: list[Stretch] = []
    y = torch.empty(tuple(shape), dtype=dtype, device="meta", requires_grad=True)
    for _ in range(2):
        entered = copy_to_ranks(comm, y)
        y = sum_over_ranks(comm, _Block.apply(entered, comm, seconds / 2 / comm.world_size, spent))
    y.sum().backward()
    end = comm.time()
    between = pairwise([Stretch("", 0, 0), *spent, Stretch("", end, end)])
    waits = [Stretch("communication", before.end, after.start) for before, after in between if after.start > before.end]
    return sorted([*spent, *waits], key=lambda stretch: stretch.start)


class _Block(torch.autograd.Function):
    """Takes its time, forward and, twice that, backward."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, comm: Communicator, seconds: float, spent: list[Stretch]) -> Any:
        ctx.compute = lambda kind, times: _sleep(comm, times * seconds, kind, spent)
        ctx.compute("forward", 1)
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.compute("backward", 2)
        return gradients[0].clone(), None, None, None


def _sleep(comm: Communicator, seconds: float, kind: str, spent: list[Stretch]) -> None:
    start = comm.time()
    comm.sleep(seconds)
    spent.append(Stretch(kind, start, comm.time()))
