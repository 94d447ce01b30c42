"""Reduce-scatter by recursive halving: in each round a rank gives away half of what it still works on.

    4 ranks; what each works on      after distance 2    after distance 1
    rank 0   chunks 0 1 2 3          0 1                 0
    rank 1          0 1 2 3          0 1                   1
    rank 2          0 1 2 3              2 3                 2
    rank 3          0 1 2 3              2 3                   3

See `butterfly` for who exchanges with whom. Cost for N ranks and S bytes: log₂ N·α + (N−1)/N·S/B where N is a power of
two. The ring sends as much, but in N−1 rounds. For other N, folding adds α + S/B before and α + S/(N·B) after: the ring
is better for large tensors then.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
High Perform. Comput. Appl. 19(1), 2005.
"""

from __future__ import annotations

import torch

from distlib.collectives.arguments import announced
from distlib.collectives.butterfly import fold, halve, unfold
from distlib.collectives.reduction import check_op, finish
from distlib.communicator import Communicator, ReduceOp
from distlib.network.powers import beyond_power_of_two
from distlib.partition import chunk_start, flat_view, write_back


@torch.no_grad()
def recursive_halving_reduce_scatter(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """Reduce, and leave each rank with one chunk of the result, in place. See `reduce_scatter`.

    Afterwards chunk `comm.rank` of the flattened tensor holds its result; the other chunks hold partial results.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    check_op(op, tensor.dtype)
    comm = announced(comm, "reduce_scatter", op=op, algorithm="recursive_halving")
    rank, size = comm.rank, comm.world_size
    extra, _ = beyond_power_of_two(size)
    flat = flat_view(tensor)
    length = flat.numel()

    def start_of_chunk(chunk: int) -> int:
        return chunk_start(length, size, chunk)

    def start_of_block(survivor: int) -> int:  # the first `extra` survivors stand for two ranks, and keep two chunks
        return start_of_chunk(min(2 * survivor, survivor + extra))

    group = fold(comm, flat, op)
    if group is not None:
        halve(group, flat, start_of_block, op)
        finish(flat[start_of_block(group.rank) : start_of_block(group.rank + 1)], op, size)
    even_rank = rank - rank % 2
    unfold(comm, flat[start_of_chunk(even_rank) : start_of_chunk(even_rank + 1)])
    write_back(tensor, flat)
