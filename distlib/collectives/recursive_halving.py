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

from distlib.collectives.butterfly import Blocks, fold, halve, unfold
from distlib.collectives.collective import collective
from distlib.communicator import Communicator, ReduceOp
from distlib.network.powers import beyond_power_of_two
from distlib.partition import chunks_of


@collective("reduce_scatter", algorithm="recursive_halving")
def recursive_halving_reduce_scatter(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """Reduce, and leave each rank with one chunk of the result, in place. See `reduce_scatter`.

    Afterwards chunk `comm.rank` of the flattened tensor holds its result; the other chunks hold partial results.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    extra, _ = beyond_power_of_two(comm.world_size)
    group = fold(comm, tensor, op)
    if group is not None:
        halve(group, Blocks(tensor, comm.world_size, doubled=extra), op)  # the first `extra` survivors stand for two
    if extra:
        chunks = chunks_of(tensor, comm.world_size)
        unfold(comm, chunks[comm.rank - comm.rank % 2])  # an even rank's chunk, computed by the odd rank after it
