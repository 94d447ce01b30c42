"""All-reduce by halving and doubling (Rabenseifner): few rounds and few bytes.

    reduce-scatter by recursive halving     every rank ends with 1/N of the sum
    all-gather by recursive doubling        every rank ends with all of it

See `butterfly` for who exchanges with whom. Cost for N ranks and S bytes, N a power of two: 2·log₂ N rounds and
2(N−1)/N·S bytes per rank, 2·log₂ N·α + 2(N−1)/N·S/B: the bytes of the ring in the rounds of a tree. But half of the
bytes go to the rank that is farthest away, and that is the slowest link in most clusters.

For other N, with P the power of two below it, N−P ranks hand their data to a neighbor first and get the result from it
at the end: 2(α + S/B) more, which makes the ring better for large tensors.

Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

import torch

from distlib.collectives.arguments import announced
from distlib.collectives.butterfly import blocks_around, double, fold, halve, unfold
from distlib.collectives.reduction import check_op, finish
from distlib.communicator import Communicator, ReduceOp
from distlib.partition import chunk_start, flat_view, write_back


@torch.no_grad()
def halving_doubling_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """All-reduce by halving and doubling, in place. See `all_reduce`, and the module for its cost.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    check_op(op, tensor.dtype)
    comm = announced(comm, "all_reduce", op=op, algorithm="halving_doubling")
    flat = flat_view(tensor)
    group = fold(comm, flat, op)
    if group is not None:
        length, parts = flat.numel(), group.world_size

        def start(block: int) -> int:
            return chunk_start(length, parts, block)

        halve(group, flat, start, op)
        finish(blocks_around(flat, start, group.rank, 1), op, comm.world_size)
        double(group, flat, start)
    unfold(comm, flat)
    write_back(tensor, flat)
