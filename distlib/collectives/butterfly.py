"""Halving and doubling: pairs of ranks exchange, at distances that are powers of two. Parts of other collectives.

    halving, 4 ranks, 4 blocks: each rank gives away the half that it will not keep, and adds what it receives

        distance 2    0 ──blocks 2,3──► 2      1 ──blocks 2,3──► 3
                      0 ◄──blocks 0,1── 2      1 ◄──blocks 0,1── 3
        distance 1    0 ───block 1────► 1      2 ───block 3────► 3
                      0 ◄──block 0───── 1      2 ◄──block 2───── 3

    doubling: the same pairs from the last to the first; each rank sends a copy of all that it has

        distance 1    0 ───block 0────► 1      2 ───block 2────► 3
                      0 ◄──block 1───── 1      2 ◄──block 3───── 3
        distance 2    0 ──blocks 0,1──► 2      1 ──blocks 0,1──► 3
                      0 ◄──blocks 2,3── 2      1 ◄──blocks 2,3── 3

Cost of each for N ranks (a power of two) and S bytes: log₂ N rounds, (N−1)/N·S bytes per rank, so
log₂ N·α + (N−1)/N·S/B.

Where N is not a power of two, the ranks beyond one fold: they hand their data to a neighbor, which then
stands for two ranks.

    6 ranks, 2 beyond 4     0 ──S──► 1     2 ──S──► 3     4     5         survivors: 1, 3, 4, 5

Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

from __future__ import annotations

from functools import lru_cache

import torch

from distlib.collectives.group import RankGroup
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.network.powers import beyond_power_of_two, powers_of_two_below
from distlib.partition import chunk_start, parts_of


class Blocks:
    """A one-dimensional tensor cut into blocks, one per rank of a power of two. Neighboring blocks are one view.

    Args:
        flat: the tensor, cut into `parts` chunks as by `chunks_of`.
        parts: how many chunks. Each block is one chunk,
        doubled: but the first `doubled` blocks are two chunks each: they belong to ranks that stand for two.
    """

    def __init__(self, flat: torch.Tensor, parts: int, doubled: int = 0) -> None:
        self._flat, self._part, self._starts = flat, parts_of(flat), _starts(flat.numel(), parts, doubled)

    def around(self, rank: int, distance: int) -> torch.Tensor:
        """The `distance` neighboring blocks that block `rank` is among: around(5, 4) is blocks 4, 5, 6, 7."""
        first = rank - rank % distance
        return self._part(self._starts[first], self._starts[first + distance])

    def room_for(self, distance: int) -> torch.Tensor:
        """Memory that is long enough for any `distance` neighboring blocks: the first ones are the longest."""
        return torch.empty(self._starts[distance], dtype=self._flat.dtype, device=self._flat.device)


@lru_cache(maxsize=64)  # for thousands of simulated ranks, which all ask for the same
def _starts(length: int, parts: int, doubled: int) -> list[int]:
    """Where each block begins, and at last where the last one ends."""
    return [chunk_start(length, parts, min(2 * block, block + doubled)) for block in range(parts - doubled + 1)]


def halve(comm: Communicator, blocks: Blocks, op: ReduceOp) -> None:
    """Recursive halving over a power of two of ranks: afterwards block `comm.rank` holds its result."""
    room = parts_of(blocks.room_for(max(1, comm.world_size // 2)))
    for distance in reversed(powers_of_two_below(comm.world_size)):
        partner = comm.rank ^ distance
        mine, theirs = blocks.around(comm.rank, distance), blocks.around(partner, distance)
        incoming = room(0, mine.numel())
        comm.exchange(theirs, partner, incoming, partner)
        combine(mine, incoming, op)


def double(comm: Communicator, blocks: Blocks) -> None:
    """Recursive doubling over a power of two of ranks: block `comm.rank` of each ends up everywhere."""
    for distance in powers_of_two_below(comm.world_size):
        partner = comm.rank ^ distance
        mine, theirs = blocks.around(comm.rank, distance), blocks.around(partner, distance)
        comm.exchange(mine, partner, theirs, partner)


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
