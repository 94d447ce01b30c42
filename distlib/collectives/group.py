"""Some ranks of a communicator, numbered anew, for one part of a collective.

    comm         0   1   2   3   4   5
    members          1       3       5
    the group        0       1       2

`Communicator.split` makes a communicator that lasts, and all ranks have to meet for it. Here every rank computes the
members by itself, so a group is made without a message. It has what a collective needs: send, receive and exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.communicator import Communicator, Work


class RankGroup(Communicator):
    """A communicator over `members`, ranks of `comm` in the order of their new numbers. This rank must be one of them.

    `Work.wait` returns the number that the other rank has in `comm`.
    """

    def __init__(self, comm: Communicator, members: Sequence[int]) -> None:
        self._comm = comm
        self._members = members
        self.rank = members.index(comm.rank)
        self.world_size = len(members)
        self.device = comm.device
        self.call = getattr(comm, "call", None)  # the communicator of an exercise has none

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        self._comm.send(tensor, self._members[dst], tag)

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        return self._members.index(self._comm.recv(tensor, self._known(src), tag))

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        return self._comm.isend(tensor, self._members[dst], tag)

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        return self._comm.irecv(tensor, self._known(src), tag)

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        self._comm.exchange(outgoing, self._members[dst], incoming, self._members[src], tag)

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Work:
        members = self._members
        return self._comm.start(lambda comm: function(RankGroup(comm, members), *args, **kwargs))

    def barrier(self) -> None:
        raise NotImplementedError("a RankGroup has no barrier of its own: use distlib.collectives.barrier(group)")

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        raise NotImplementedError("a RankGroup can't be split: split the communicator it is a part of")

    def within(self, call: str) -> Communicator:
        if self.call is not None or not isinstance(self._comm, Communicator):
            return self
        return RankGroup(self._comm.within(call), self._members)

    def sleep(self, seconds: float) -> None:
        self._comm.sleep(seconds)

    def time(self) -> float:
        return self._comm.time()

    def _known(self, src: int | None) -> int:
        if src is None:
            raise ValueError("a RankGroup receives from one of its members, not from anyone: name src")
        return self._members[src]
