"""All-reduce in a ring: every rank only ever talks to its two neighbors, and all links are busy all the time.

The tensor is cut into N chunks, as torch.tensor_split cuts it. In each round every rank sends one chunk to the next
rank and receives one from the previous rank.

    reduce-scatter (N−1 rounds): a chunk travels once around and collects what each rank adds; it ends, complete, at
    the rank of its own number. Chunk 2 on 4 ranks:

        rank 3 ──a₃──► rank 0 ──a₃+a₀──► rank 1 ──a₃+a₀+a₁──► rank 2: + a₂, the full sum

    all-gather (N−1 rounds): the complete chunk travels once more around and is copied everywhere:

        rank 2 ──sum──► rank 3 ──sum──► rank 0 ──sum──► rank 1

Cost for S bytes: every rank sends 2(N−1)/N·S bytes in 2(N−1) rounds, time ≈ 2(N−1)·α + 2(N−1)/N·S·β. No algorithm
sends less per rank (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
J. Parallel Distrib. Comput. 69(2), 2009).
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.partition import chunks_of


@collective("reduce_scatter", algorithm="ring")
def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """Reduce, and leave each rank with one chunk of the result, in place.

    Afterwards chunk `comm.rank` of the flattened tensor holds its result; the other chunks hold partial results.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    chunks = chunks_of(tensor, size)
    room = torch.empty_like(chunks[0])  # the longest; others may be shorter by one
    short, longer = divmod(tensor.numel(), size)
    shorter = room[:short]
    for step in range(size - 1):
        coming = (rank - 2 - step) % size
        outgoing, mine = chunks[(coming + 1) % size], chunks[coming]
        incoming = room if coming < longer else shorter
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        combine(mine, incoming, op)


@collective("all_gather", algorithm="ring")
def ring_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """Give every rank the chunks of all others, in place.

    Before, chunk `comm.rank` of the flattened tensor holds this rank's part; afterwards every chunk is everywhere.
    """
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    chunks = chunks_of(tensor, size)
    for step in range(size - 1):
        outgoing = chunks[(rank - step) % size]
        incoming = chunks[(rank - 1 - step) % size]
        comm.exchange(outgoing, next_rank, incoming, previous_rank)


@collective("all_reduce", algorithm="ring")
def ring_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """All-reduce in a ring, in place: reduce-scatter, then all-gather. See `all_reduce`, and the module for its cost.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    ring_reduce_scatter(comm, tensor, op)
    ring_all_gather(comm, tensor)
