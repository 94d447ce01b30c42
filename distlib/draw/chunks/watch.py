"""A communicator that passes every call on, and notes what a tensor holds before each.

This part runs on the ranks. What they note goes to a file each, at once, so that it is still there when the run ends
in a deadlock or a rank is killed; `chunk_history` reads the files in the kernel.
"""

from __future__ import annotations

import inspect
import os
import pickle
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

from distlib.communicator import Communicator, Work
from distlib.draw.chunks.markers import Markers

_PASSES_ON = True  # see worlds.call_site
_STARTS_RANKS = True  # see worlds.call_site

GroupPath = tuple[tuple[int, int | None], ...]
"""How a communicator came to be: (number of the split, color) for each split on the way; () for the world's own."""


@dataclass(frozen=True, slots=True)
class State:
    """The values of the watched tensor at this point."""

    values: array[float]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message was started. `dst` counts in the group; `chunks` are those inside, () if that is unknown."""

    group: GroupPath
    dst: int
    tag: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """A message has arrived. `src` counts in the group."""

    group: GroupPath
    src: int
    tag: int


@dataclass(frozen=True, slots=True)
class Split:
    """A communicator was split for the `number`-th time."""

    group: GroupPath
    number: int
    color: int | None
    key: int | None


Record = State | Sent | Received | Split


@dataclass
class Notes:
    """Where one rank notes what it does with the `tensor` that is watched."""

    file: BinaryIO
    tensor: torch.Tensor
    markers: Markers

    def write(self, record: Record) -> None:
        """Write one record, so that it outlives this process."""
        self.file.write(pickle.dumps(record))
        self.file.flush()

    def write_state(self) -> None:
        """Write what the watched tensor holds now."""
        self.write(State(array("d", self.tensor.tolist())))

    def chunks_of(self, outgoing: torch.Tensor) -> tuple[int, ...]:
        """Which chunks are in a message: by its place in memory if it is a part of the tensor, else by its values."""
        if not outgoing.numel():
            return ()
        if outgoing.untyped_storage().data_ptr() != self.tensor.untyped_storage().data_ptr():
            return self.markers.chunks_inside(outgoing.flatten().tolist())
        first = outgoing.storage_offset() - self.tensor.storage_offset()
        last = first + sum((size - 1) * stride for size, stride in zip(outgoing.shape, outgoing.stride(), strict=True))
        length = self.markers.chunk_length
        return tuple(range(first // length, last // length + 1))


class WatchedCommunicator(Communicator):
    """Passes every call on to `inner`, and notes the watched tensor before each.

    It is transparent: same messages, same errors, same lines of code in the trace. Whatever else `inner` can do, it
    can do too.
    """

    def __init__(self, inner: Communicator, notes: Notes, group: GroupPath = ()) -> None:
        self.inner, self.notes, self.group = inner, notes, group
        self.rank, self.world_size, self.device = inner.rank, inner.world_size, inner.device
        self.call = inner.call
        self._splits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __reduce__(self) -> Any:
        return self.inner.__reduce__()

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        self._note_send(tensor, dst, tag)
        self.inner.send(tensor, dst, tag)

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        self.notes.write_state()
        source = self.inner.recv(tensor, src, tag)
        self.notes.write(Received(self.group, source, tag))
        return source

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        self._note_send(tensor, dst, tag)
        return self.inner.isend(tensor, dst, tag)

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        self.notes.write_state()
        return _WatchedReceive(self.inner.irecv(tensor, src, tag), self, tag)

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        self._note_send(outgoing, dst, tag)
        self.inner.exchange(outgoing, dst, incoming, src, tag)
        self.notes.write(Received(self.group, src, tag))

    def barrier(self) -> None:
        self.notes.write_state()
        self.inner.barrier()

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        self.notes.write_state()
        smaller = self.inner.split(color, key)
        self.notes.write(Split(self.group, self._splits, color, key))
        path = (*self.group, (self._splits, color))
        self._splits += 1
        return None if smaller is None else WatchedCommunicator(smaller, self.notes, path)

    def within(self, call: str) -> Communicator:
        return self if self.call is not None else WatchedCommunicator(self.inner.within(call), self.notes, self.group)

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)

    def time(self) -> float:
        return self.inner.time()

    def _note_send(self, tensor: torch.Tensor, dst: int, tag: int) -> None:
        self.notes.write_state()
        if isinstance(tensor, torch.Tensor) and type(dst) is int and 0 <= dst < self.world_size:
            self.notes.write(Sent(self.group, dst, tag, self.notes.chunks_of(tensor)))


class _WatchedReceive(Work):
    """A started receive that notes when it is waited for, which is when its data may be used."""

    def __init__(self, inner: Work, comm: WatchedCommunicator, tag: int) -> None:
        self._inner, self._comm, self._tag = inner, comm, tag
        self._noted = False

    def wait(self) -> int:
        self._comm.notes.write_state()
        source = self._inner.wait()
        if not self._noted:
            self._comm.notes.write(Received(self._comm.group, source, self._tag))
            self._noted = True
        return source

    def is_completed(self) -> bool:
        return self._inner.is_completed()


def run_watched(
    comm: Communicator, function: Callable[..., Any], folder: str, markers: Markers, scattered: bool
) -> bool:
    """Call `function(comm, tensor)` on this rank with a marked tensor, and note everything in `folder`.

    Returns:
        Whether the function returned a tensor other than the one it was given.
    """
    tensor = torch.tensor(markers.initial(comm.rank, scattered), device=comm.device)
    with open(records_path(folder, comm.rank), "wb") as file:
        notes = Notes(file, tensor, markers)
        try:
            result = function(WatchedCommunicator(comm, notes), tensor)
            if inspect.isgenerator(result):
                deque(result, maxlen=0)
        finally:
            notes.write_state()
    return isinstance(result, torch.Tensor) and result.data_ptr() != tensor.data_ptr()


def records_path(folder: str, rank: int) -> str:
    """The file in which `rank` notes its records."""
    return os.path.join(folder, f"rank{rank}.pickle")
