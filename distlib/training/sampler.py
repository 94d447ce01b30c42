"""Which samples each rank trains on: a partition of the data set, shuffled again in every epoch.

10 samples, 4 ranks, not shuffled. Rank r takes every 4th sample, from r on:

    index    0  1  2  3  4  5  6  7  8  9        padded with  0  1       or  8  9  dropped
    rank     0  1  2  3  0  1  2  3  0  1                     2  3

All ranks shuffle with the same seed, so they agree on the order without a message, and take different parts of it. Each
rank has equally many samples: otherwise a rank would come to a step for which another one has no batch left, and wait
forever.

The rules are those of torch.utils.data.distributed.DistributedSampler
(https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sized

import torch
from torch.utils.data import Sampler

from distlib.arguments import checked
from distlib.communicator import Communicator


class DistributedSampler(Sampler[int]):
    """The indices of one rank, for `torch.utils.data.DataLoader(dataset, sampler=…)`.

    Args:
        comm: its rank and number of ranks are used; nothing is sent.
        dataset: anything with a length, at least 1.
        shuffle: shuffle the samples, differently in each epoch.
        seed: of the shuffle, the same on every rank.
        drop_last: leave out the last samples that do not fill a round of all ranks; otherwise the first ones are used
            again to fill it.

    Raises:
        ValueError: an empty data set, or one with fewer samples than ranks if `drop_last`.
    """

    @checked
    def __init__(
        self, comm: Communicator, dataset: Sized, *, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> None:
        self._rank, self._world_size, self._length = comm.rank, comm.world_size, len(dataset)
        if self._length < (self._world_size if drop_last else 1):
            raise ValueError(
                f"expected at least {'one sample for each rank' if drop_last else 'one sample'}, got a data set of "
                f"{self._length} for {self._world_size} ranks"
            )
        self._shuffle, self._seed, self._drop_last = shuffle, operator.index(seed), drop_last  # also those of numpy
        self._epoch = 0

    @checked
    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that comes next. Without this call every epoch has the same order."""
        self._epoch = operator.index(epoch)

    def __len__(self) -> int:
        full, rest = divmod(self._length, self._world_size)
        return full + (rest > 0 and not self._drop_last)

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        wanted = len(self) * self._world_size
        while len(order) < wanted:  # more than once, if there are more ranks than samples
            order += order[: wanted - len(order)]
        return iter(order[self._rank : wanted : self._world_size])

    def _order(self) -> list[int]:
        if not self._shuffle:
            return list(range(self._length))
        generator = torch.Generator().manual_seed(self._seed + self._epoch)
        return torch.randperm(self._length, generator=generator).tolist()
