"""Blocks that travel once round a ring of ranks, while each rank works with the one that it has.

    step 0      rank r has its own block, and sends it to rank r+1
    step 1      it has the block of rank r−1, and sends that on
    …           after N−1 sends each rank has had every block

The next block is on its way while a rank works with the last: a step takes as long as the longer of the two.

What the ranks add to a block (a gradient) travels after it, one step later, and makes one send more: after N steps the
sum is back where the block came from.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from distlib.communicator import Communicator, Work

Visit = Callable[[int, torch.Tensor], None]
Addend = Callable[[int, torch.Tensor], torch.Tensor]


def circulate(comm: Communicator, block: torch.Tensor, visit: Visit) -> None:
    """Call `visit(source, block)` with the block of every rank, this rank's own one first. N−1 messages of its size.

    Args:
        block: contiguous; the same shape and dtype on every rank. It is not changed.
    """
    for step in range(comm.world_size):
        source = (comm.rank - step) % comm.world_size
        last = step == comm.world_size - 1
        coming = None if last else _HandOn(comm, block)
        visit(source, block)
        if coming is not None:
            block = coming.wait()


def circulate_and_collect(comm: Communicator, block: torch.Tensor, addend: Addend) -> torch.Tensor:
    """The sum over all ranks of what `addend(source, block)` returns for this rank's own block.

    2N−1 messages: the blocks in N−1, the sums in N.

    Args:
        block: as of `circulate`.
        addend: returns a tensor that is its caller's own, of the same shape and dtype on every rank.
    """
    total: torch.Tensor | None = None
    sum_coming: _HandOn | None = None
    for step in range(comm.world_size):
        source = (comm.rank - step) % comm.world_size
        last = step == comm.world_size - 1
        coming = None if last else _HandOn(comm, block)
        total = addend(source, block)
        if sum_coming is not None:
            total += sum_coming.wait()
        sum_coming = _HandOn(comm, total) if comm.world_size > 1 else None
        if coming is not None:
            block = coming.wait()
    assert total is not None
    return sum_coming.wait() if sum_coming is not None else total


class _HandOn:
    """A tensor on its way to the next rank, while one of the same shape comes from the rank before."""

    def __init__(self, comm: Communicator, outgoing: torch.Tensor) -> None:
        self._incoming = torch.empty_like(outgoing)
        next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
        self._work: Work = comm.start(_exchange, outgoing, next_rank, self._incoming, previous_rank)

    def wait(self) -> torch.Tensor:
        """Block until both are over; returns the tensor that has come."""
        self._work.wait()
        return self._incoming


def _exchange(comm: Communicator, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int) -> None:
    comm.exchange(outgoing, dst, incoming, src)
