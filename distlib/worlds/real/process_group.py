"""The communicator between real processes: gloo or shared memory on CPUs, NCCL on GPUs.

It checks the arguments, finds out which line of the student's code is calling, and leaves the rest to the rank's
`Endpoint`, which says how two ranks meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from distlib.arguments import check_callable, check_number
from distlib.communicator import Communicator, Work
from distlib.trace import CallSite
from distlib.worlds.call_site import find_call_site, is_own_file
from distlib.worlds.message_check import check_apart, check_message, check_split, ranks_of_color
from distlib.worlds.real.endpoint import Endpoint, Group

_PASSES_ON = True  # see worlds.call_site


class ProcessGroupCommunicator(Communicator):
    """A `Communicator` between processes. Made by a `World` for each rank; see `Communicator` for its methods."""

    def __init__(
        self, endpoint: Endpoint, group: Group, call: str | None = None, called_from: CallSite | None = None
    ) -> None:
        self._endpoint = endpoint
        self._group = group
        # The line that all its messages come from: that of a `start`, or the student's line of a collective call.
        self._called_from = called_from.within(call) if called_from is not None else None
        self.call = call
        self.rank = group.members.index(endpoint.rank)
        self.world_size = group.size
        self.device = endpoint.device
        self.network = endpoint.network

    @property
    def shares_memory(self) -> bool:
        """Whether the ranks read each other's tensors where they lie, in a World without a network of its own."""
        return self._endpoint.shares_memory and self.network is None

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        dst, tag = check_message(self, tensor, "send", dst, tag)
        return self._endpoint.isend(self._group, dst, tensor, tag, self._site())

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        src, tag = check_message(self, tensor, "receive", src, tag)
        return self._endpoint.irecv(self._group, src, tensor, tag, self._site())

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        dst, tag = check_message(self, outgoing, "send", dst, tag)
        src, tag = check_message(self, incoming, "receive", src, tag)
        check_apart(outgoing, incoming)
        site = self._site()
        receiving = self._endpoint.irecv(self._group, src, incoming, tag, site)
        sending = self._endpoint.isend(self._group, dst, outgoing, tag, site)
        self._endpoint.wait_for([sending, receiving])

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Work:
        check_callable("start", function, "all_reduce")
        comm = ProcessGroupCommunicator(self._endpoint, self._group, self.call, self._site())
        return self._endpoint.start(partial(function, comm, *args, **kwargs), self.rank)

    def barrier(self) -> None:
        if self.world_size > 1:
            self._endpoint.meet(self._group, "barrier", None, self._site())

    def everybody(self, name: str) -> Communicator:
        self._endpoint.meet(self._group, name, None, self._site())
        group = Group((*self._group.id, self._group.meetings, 0), self._group.members)
        return ProcessGroupCommunicator(self._endpoint, group, None, self._called_from)

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        color, key = check_split(color, key)
        everybody = self._endpoint.meet(self._group, "split", (color, key), self._site())
        if color is None:
            return None
        members = tuple(self._group.members[rank] for rank in ranks_of_color(everybody, color))
        group_id = (*self._group.id, self._group.meetings, color)
        return ProcessGroupCommunicator(self._endpoint, Group(group_id, members), None, self._called_from)

    def subgroup(self, members: Sequence[int], name: str) -> Communicator:
        group_id = (*self._group.id, number_of_name(name))
        group = Group(group_id, tuple(self._group.members[rank] for rank in members))
        return ProcessGroupCommunicator(self._endpoint, group, None, self._called_from)

    def within(self, call: str) -> Communicator:
        if self.call is not None:
            return self
        site = self._site()
        self._endpoint.note_call(call, site)
        called_from = site if self._called_from is not None or is_own_file(site.file) else None
        return ProcessGroupCommunicator(self._endpoint, self._group, call, called_from)

    def sleep(self, seconds: float) -> None:
        check_number("sleep", "seconds", seconds, at_least=0)
        self._endpoint.sleep(seconds)

    def time(self) -> float:
        return self._endpoint.time()

    def _site(self) -> CallSite:
        return self._called_from or find_call_site(self.call)

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.world_size}, {self.device}>"


def torch_store_name(endpoint: Endpoint, group: Group) -> str:
    """A file name that the ranks of a group agree on and that is used once."""
    group.meetings += 1
    return "torch-" + "-".join(str(part) for part in (endpoint._run, *group.id, group.meetings))


def number_of_name(name: str) -> int:
    """A number by which ranks know a group of this name, far from those that `split` gives."""
    return -int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
