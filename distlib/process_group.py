"""The communicator between real processes: gloo on CPUs, NCCL where each rank has its own GPU.

It checks the arguments, finds out which line of the student's code is calling, and leaves the rest to the rank's
`Endpoint`, which says how two ranks meet.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed

from distlib.call_site import find_call_site
from distlib.communicator import Communicator, Work
from distlib.diagnosis import MessageMismatch
from distlib.endpoint import Endpoint, Group


class ProcessGroupCommunicator(Communicator):
    """A `Communicator` between processes. Made by a `World` for each rank; see `Communicator` for its methods."""

    def __init__(self, endpoint: Endpoint, group: Group) -> None:
        self._endpoint = endpoint
        self._group = group
        self.rank = group.members.index(endpoint.rank)
        self.world_size = group.size
        self.device = endpoint.device

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        self._check(tensor, "send", dst, tag)
        return self._endpoint.isend(self._group, dst, tensor, tag, find_call_site())

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        self._check(tensor, "receive", src, tag)
        return self._endpoint.irecv(self._group, src, tensor, tag, find_call_site())

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        self._check(outgoing, "send", dst, tag)
        self._check(incoming, "receive", src, tag)
        _check_apart(outgoing, incoming)
        site = find_call_site()
        receiving = self._endpoint.irecv(self._group, src, incoming, tag, site)
        sending = self._endpoint.isend(self._group, dst, outgoing, tag, site)
        self._endpoint.wait_for([sending, receiving])

    def barrier(self) -> None:
        if self.world_size > 1:
            self._endpoint.meet(self._group, "barrier", None, find_call_site())

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        for name, value in (("color", color), ("key", key)):
            if value is not None and not isinstance(value, int):
                raise ValueError(f"split: expected an integer or None as {name}, got {value!r}")
        everybody = self._endpoint.meet(self._group, "split", (color, key), find_call_site())
        if color is None:
            return None
        order = sorted(
            (their_key if their_key is not None else rank, rank)
            for rank, (their_color, their_key) in enumerate(everybody)
            if their_color == color
        )
        members = tuple(self._group.members[rank] for _, rank in order)
        group_id = (*self._group.id, self._group.meetings, color)
        return ProcessGroupCommunicator(self._endpoint, Group(group_id, members))

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def time(self) -> float:
        return self._endpoint.now()

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.world_size}, {self.device}>"

    def __reduce__(self) -> Any:
        raise TypeError("a communicator belongs to its rank and to the run: it can't be sent, returned or kept")

    def _check(self, tensor: torch.Tensor, verb: str, peer: int | None, tag: int) -> None:
        """One place for all that can be wrong with the arguments of a message, before anything is sent."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"expected a torch.Tensor to {verb}, got {type(tensor).__name__}: {tensor!r}")
        direction = "to" if verb == "send" else "from"
        if peer is not None and (type(peer) is not int or not 0 <= peer < self.world_size):
            raise MessageMismatch(
                f"rank {self.rank} wants to {verb} {direction} rank {peer!r}, but the ranks are 0 to "
                f"{self.world_size - 1}. In a ring: (comm.rank + 1) % comm.world_size."
            )
        if peer == self.rank:
            raise MessageMismatch(
                f"rank {self.rank} wants to {verb} {direction} itself. A rank has its own data already; with "
                f"{self.world_size} rank{'s' * (self.world_size > 1)}, check how you compute the other rank."
            )
        if type(tag) is not int:
            raise ValueError(f"expected an integer tag, got {tag!r}")
        if tensor.device.type not in ("cpu", self.device.type) or tensor.layout != torch.strided:
            raise ValueError(
                f"expected a dense tensor on {self.device}, got a {tensor.layout} one on {tensor.device}: "
                f"move it with tensor.to(comm.device)"
            )


@contextlib.contextmanager
def torch_distributed(comm: Communicator) -> Iterator[Any]:
    """Inside a rank: torch.distributed's default process group (gloo) over the ranks of `comm`, for one `with` block.

        with torch_distributed(comm) as dist:
            dist.all_reduce(tensor)

    So that a computation can be compared with torch's own. Every rank of `comm` must enter the block; its messages are
    torch's and do not appear in the trace.

    Raises:
        ValueError: `comm` is not a communicator of a `World`.
    """
    if not isinstance(comm, ProcessGroupCommunicator):
        raise ValueError(f"torch_distributed needs the communicator of a World, got {type(comm).__name__}")
    endpoint, group = comm._endpoint, comm._group
    name = torch_store_name(endpoint, group)
    dist: Any = torch.distributed
    store = dist.FileStore(os.path.join(endpoint.directory, name), comm.world_size)
    dist.init_process_group("gloo", store=store, rank=comm.rank, world_size=comm.world_size)
    try:
        yield dist
    finally:
        dist.destroy_process_group()


def torch_store_name(endpoint: Endpoint, group: Group) -> str:
    """A file name that the ranks of a group agree on and that is used once."""
    group.meetings += 1
    return "torch-" + "-".join(str(part) for part in (endpoint._run, *group.id, group.meetings))


def _check_apart(outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
    """An exchange must not read and write the same memory. Seen for contiguous tensors; others are not checked."""
    if not (outgoing.is_contiguous() and incoming.is_contiguous()):
        return
    first, second = outgoing.data_ptr(), incoming.data_ptr()
    overlap = min(first + outgoing.nbytes, second + incoming.nbytes) > max(first, second)
    if overlap and outgoing.numel() and incoming.numel():
        raise ValueError("exchange: outgoing and incoming share memory; receive into a buffer of its own")
