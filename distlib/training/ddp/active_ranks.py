"""Which ranks have a batch for this step: all of them, except inside `join`, where some run out of data first.

step        1         2         3
rank 0      batch     batch     –            averages over 2 ranks, 2 ranks, 1 rank
rank 1      batch     batch     batch
"""

from __future__ import annotations

import torch

from distlib.collectives import all_reduce
from distlib.communicator import Communicator


class ActiveRanks:
    """The ranks that have a batch, as agreed on in the last meeting; before any meeting, all ranks.

    Attributes:
        ranks: in ascending order, never empty.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.everybody_again()

    def everybody_again(self) -> None:
        """Count all ranks as active, as at the start."""
        self.ranks = list(range(self._comm.world_size))

    def meet(self, has_batch: bool) -> bool:
        """Tell one another who has a batch. One small all-reduce; every rank must call it.

        Returns:
            Whether any rank has one. If none has, `ranks` stays as it was.
        """
        flags = torch.zeros(self._comm.world_size, dtype=torch.int64)
        flags[self._comm.rank] = int(has_batch)
        all_reduce(self._comm, flags)
        active = flags.nonzero().flatten().tolist()
        self.ranks = active or self.ranks
        return bool(active)
