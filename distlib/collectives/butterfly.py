"""Halving and doubling: pairs of ranks exchange, at distances that are powers of two. Parts of other collectives.

    halving, 4 ranks, 4 blocks: each rank gives away the half that it is not to keep, and adds what it gets

        distance 2    0 ──blocks 2,3──► 2      1 ──blocks 2,3──► 3
                      0 ◄──blocks 0,1── 2      1 ◄──blocks 0,1── 3
        distance 1    0 ───block 1────► 1      2 ───block 3────► 3
                      0 ◄──block 0───── 1      2 ◄──block 2───── 3

    doubling: the same pairs from the last to the first; each rank gives a copy of all that it has

        distance 1    0 ───block 0────► 1      2 ───block 2────► 3
                      0 ◄──block 1───── 1      2 ◄──block 3───── 3
        distance 2    0 ──blocks 0,1──► 2      1 ──blocks 0,1──► 3
                      0 ◄──blocks 2,3── 2      1 ◄──blocks 2,3── 3

Cost of each for N ranks (a power of two) and S bytes: log₂ N rounds, (N−1)/N·S bytes per rank, so
log₂ N·α + (N−1)/N·S/B.

Where N is not a power of two, the ranks beyond one fold: they hand all they have to a neighbor, which stands for both.

    6 ranks, 2 beyond 4     0 ──S──► 1     2 ──S──► 3     4     5         survivors: 1, 3, 4, 5

Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch

from distlib.collectives.group import RankGroup
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.network.powers import beyond_power_of_two, powers_of_two_below

Start = Callable[[int], int]  # the index of the first element of a block


def halve(comm: Communicator, flat: torch.Tensor, start: Start, op: ReduceOp) -> None:
    """Recursive halving over a power of two of ranks: afterwards block `comm.rank` of `flat` holds its result."""
    size = comm.world_size
    incoming = torch.empty_like(flat[: start(size // 2)])  # the blocks of the first half are the longest
    for distance in reversed(powers_of_two_below(size)):
        partner = comm.rank ^ distance
        mine, theirs = blocks_around(flat, start, comm.rank, distance), blocks_around(flat, start, partner, distance)
        arrived = incoming[: mine.numel()]
        comm.exchange(theirs, partner, arrived, partner)
        combine(mine, arrived, op)


def double(comm: Communicator, flat: torch.Tensor, start: Start) -> None:
    """Recursive doubling over a power of two of ranks: block `comm.rank` of each ends up everywhere."""
    for distance in powers_of_two_below(comm.world_size):
        partner = comm.rank ^ distance
        mine, theirs = blocks_around(flat, start, comm.rank, distance), blocks_around(flat, start, partner, distance)
        comm.exchange(mine, partner, theirs, partner)


def blocks_around(flat: torch.Tensor, start: Start, rank: int, distance: int) -> torch.Tensor:
    """The `distance` neighboring blocks that the block of `rank` belongs to: one view."""
    first = rank - rank % distance
    return flat[start(first) : start(first + distance)]


def fold(comm: Communicator, flat: torch.Tensor, op: ReduceOp) -> Communicator | None:
    """Leave a power of two of ranks, which have the data of all.

    Returns:
        The communicator of these survivors; None on a rank that has handed over its data.
    """
    extra, _ = beyond_power_of_two(comm.world_size)
    if extra == 0:
        return comm
    if comm.rank < 2 * extra and comm.rank % 2 == 0:
        comm.send(flat, comm.rank + 1)
        return None
    if comm.rank < 2 * extra:
        incoming = torch.empty_like(flat)
        comm.recv(incoming, comm.rank - 1)
        combine(flat, incoming, op)
    return RankGroup(comm, survivors(comm.world_size))


def unfold(comm: Communicator, piece: torch.Tensor) -> None:
    """Hand `piece` from each survivor of a fold back to the neighbor that it stood for. Other ranks do nothing."""
    extra, _ = beyond_power_of_two(comm.world_size)
    if comm.rank >= 2 * extra:
        return
    if comm.rank % 2 == 0:
        comm.recv(piece, comm.rank + 1)
    else:
        comm.send(piece, comm.rank - 1)


@lru_cache(maxsize=64)
def survivors(world_size: int) -> tuple[int, ...]:
    """The ranks that are left after folding: the odd ones of the first 2·extra, and all after these."""
    extra, _ = beyond_power_of_two(world_size)
    return (*range(1, 2 * extra, 2), *range(2 * extra, world_size))
