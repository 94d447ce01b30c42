"""All-reduce on a grid of ranks: along the rows, along the columns, along the rows again. A ring in two dimensions.

    6 ranks in 2 rows and 3 columns           1. reduce-scatter along the rows: rank (i, j) has chunk j of its row's sum
                                              2. all-reduce of that chunk along the columns: it is complete
    row 0    rank 0 ── rank 1 ── rank 2       3. all-gather along the rows: everybody has all chunks
               │         │         │
    row 1    rank 3 ── rank 4 ── rank 5

Cost for N = R·C ranks in R rows and C columns, S bytes: 2(C−1) + 2(R−1) rounds instead of the ring's 2(N−1), and the
ring's 2(N−1)/N·S bytes per rank: 2(C−1)·(α + S/(C·B)) + 2(R−1)·(α + S/(N·B)).

A full all-reduce along the rows and then a full one along the columns takes as many rounds but sends
2(C−1)/C·S + 2(R−1)/R·S, up to twice as much: all columns then sum the same numbers.

Source: H. Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", arXiv:1811.05233, 2018
(there, 2D-torus all-reduce).
"""

from __future__ import annotations

import torch

from distlib.collectives.arguments import check_divides
from distlib.collectives.collective import collective
from distlib.collectives.group import RankGroup
from distlib.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from distlib.communicator import Communicator, ReduceOp
from distlib.network.choice import square_columns
from distlib.partition import chunks_of


@collective("all_reduce", algorithm="grid")
def grid_all_reduce(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, *, columns: int | None = None
) -> None:
    """All-reduce on a grid, in place. Rank r is in row r // columns. See `all_reduce`, and the module for its cost.

    Args:
        columns: how many ranks make a row; None for the grid that is nearest to a square.

    Raises:
        ValueError: `op` has no meaning for the dtype, or `columns` does not divide the number of ranks.
    """
    columns = check_divides(comm, columns=square_columns(comm.world_size) if columns is None else columns)
    row, column = divmod(comm.rank, columns)
    my_row = RankGroup(comm, range(row * columns, (row + 1) * columns))
    my_column = RankGroup(comm, range(column, comm.world_size, columns))
    my_chunk = chunks_of(tensor, columns)[column]
    ring_reduce_scatter(my_row, tensor, op)
    ring_all_reduce(my_column, my_chunk, op)
    ring_all_gather(my_row, tensor)
