"""All-reduce by halving and doubling (Rabenseifner): few rounds and few bytes.

    reduce-scatter by recursive halving     every rank ends with 1/N of the sum
    all-gather by recursive doubling        every rank ends with all of it

See `butterfly` for who exchanges with whom. Cost for N ranks and S bytes, N a power of two: 2·log₂ N rounds and
2(N−1)/N·S bytes per rank, 2·log₂ N·α + 2(N−1)/N·S/B: the bytes of the ring in the rounds of a tree. But half of the
bytes go to the rank whose number is farthest away, and that is the slowest link in most clusters. Ranks that are
renumbered with `comm.split` can begin with the nearest instead (lesson 03b).

For other N, with P the power of two below it, N−P ranks hand their data to a neighbor first and get the result from it
at the end: 2(α + S/B) more, which makes the ring better for large tensors.

Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

import torch

from distlib.collectives.butterfly import Blocks, double, fold, halve, unfold
from distlib.collectives.collective import collective
from distlib.communicator import Communicator, ReduceOp


@collective("all_reduce", algorithm="halving_doubling")
def halving_doubling_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """All-reduce by halving and doubling, in place. See `all_reduce`, and the module for its cost.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    group = fold(comm, tensor, op)
    if group is not None:
        blocks = Blocks(tensor, group.world_size)
        halve(group, blocks, op)
        double(group, blocks)
    unfold(comm, tensor)
