"""The communicator between real processes: gloo or shared memory on CPUs, NCCL on GPUs.

It checks the arguments, finds out which line of the student's code is calling, and leaves the rest to the rank's
`Endpoint`, which says how two ranks meet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed

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

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        color, key = check_split(color, key)
        everybody = self._endpoint.meet(self._group, "split", (color, key), self._site())
        if color is None:
            return None
        members = tuple(self._group.members[rank] for rank in ranks_of_color(everybody, color))
        group_id = (*self._group.id, self._group.meetings, color)
        return ProcessGroupCommunicator(self._endpoint, Group(group_id, members), None, self._called_from)

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


@contextlib.contextmanager
def torch_distributed(comm: Communicator) -> Iterator[Any]:
    """Inside a rank: torch.distributed's default process group over the ranks of `comm`, for one `with` block.

    Its backend is gloo; in a world whose ranks have GPUs, NCCL for what lies on them.

        with torch_distributed(comm) as dist:
            dist.all_reduce(tensor)

    It is for comparing a computation with torch's own. Every rank of `comm` must enter the block; the messages inside
    are torch's and do not appear in the trace.

    A trap that is closed here: a torch DDP refers to the group from C++, and often outlives the block. When such a
    DDP is the last that refers to it, torch ends the group without letting go of the interpreter's lock, and waits for
    gloo's threads. One that still has to free a Python callback, as of `work.get_future().then(…)`, waits for that
    lock: a deadlock (https://github.com/pytorch/pytorch/issues/56297). So the rank keeps a reference of its own until
    its function has returned. Torch does let go of the lock when the last reference is Python's.

    Raises:
        ValueError: `comm` is not a communicator of a `World`.
    """
    if not isinstance(comm, ProcessGroupCommunicator):
        raise ValueError(f"torch_distributed needs the communicator of a World, got {type(comm).__name__}")
    endpoint, group = comm._endpoint, comm._group
    name = torch_store_name(endpoint, group)
    dist: Any = torch.distributed
    store = endpoint.open_store(name, comm.world_size)
    backend = "cpu:gloo,cuda:nccl" if endpoint.device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=comm.rank, world_size=comm.world_size)
    endpoint.kept.append(dist.group.WORLD)
    try:
        comm.barrier()  # all are connected before anybody goes on
        yield dist
        comm.barrier()  # nobody hangs up while another one still talks
    finally:
        dist.destroy_process_group()


def torch_store_name(endpoint: Endpoint, group: Group) -> str:
    """A file name that the ranks of a group agree on and that is used once."""
    group.meetings += 1
    return "torch-" + "-".join(str(part) for part in (endpoint._run, *group.id, group.meetings))
