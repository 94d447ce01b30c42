"""What every rank is doing right now, in memory that the ranks write and the notebook's process reads.

A rank that is about to block writes what it waits for. In addition, each pair of ranks has two counters: how many
control messages one has posted to the other, and how many of them the other has handled. Equal counters mean that
nothing is on its way, so a deadlock is recognised without guessing by a timer (see diagnosis).

    ┌ status of rank 0 ┬ … ┬ status of rank N−1 ┬ posted[N][N] ┬ handled[N][N] ┐

A rank counts a message as posted *before* it writes that it blocks, and writes its status *before* it counts a message
as handled. A snapshot is copied from left to right. So when it says that nothing is on its way to a blocked rank, the
statuses in it have taken everything into account.
"""

from __future__ import annotations

import marshal
import mmap
import os
import struct
from collections.abc import Collection, Sequence
from typing import Any

_SLOT = 8192  # bytes for one rank's status
_HEAD = struct.Struct("<II")  # length of the status and how often it was written

IDLE, RUNNING, BLOCKED, FINISHED = "idle", "running", "blocked", "finished"
# state, round, waits, messages not asked for, the last collective call (see diagnosis.LastCall) or None
Status = tuple[str, int, list[tuple[Any, ...]], list[tuple[Any, ...]], tuple[int, str, str] | None]
_UNKNOWN: Status = (RUNNING, 0, [], [], None)


class Board:
    """What a rank needs of a status board."""

    def publish(self, rank: int, status: Status, handled: Sequence[int], dead: Collection[int] = ()) -> None:
        """Replace the status of `rank`; only then do the messages that it has handled count as handled.

        Args:
            handled: the senders of these messages, one for each.
            dead: ranks that have died; all they have sent counts as handled.
        """
        raise NotImplementedError


class StatusBoard(Board):
    """The shared memory of one world.

    Args:
        path: a file in the world's private directory.
        world_size: how many ranks write to it.
        create: make the file (the notebook's process) or open it (a rank).
    """

    def __init__(self, path: str, world_size: int, create: bool = False) -> None:
        counters = world_size * world_size * 4
        size = world_size * _SLOT + 2 * counters
        if create:
            _allocate(path, size)
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), size)
        view = memoryview(self._memory)
        self._world_size = world_size
        self._view = view
        self._posted = view[world_size * _SLOT :][:counters].cast("I")
        self._handled = view[world_size * _SLOT + counters :][:counters].cast("I")

    def publish(self, rank: int, status: Status, handled: Sequence[int], dead: Collection[int] = ()) -> None:
        self.write(rank, status)
        for src in handled:
            if src in dead:
                self.count_all_handled(rank, src)
            else:
                self.count_handled(rank, src)

    def write(self, rank: int, status: Status) -> None:
        """Replace the status of `rank`. Cheap: about two microseconds."""
        blob = marshal.dumps(status)
        if len(blob) > _SLOT - _HEAD.size:  # hundreds of peers or waiting messages: the first ones tell the story
            state, round_, waits, strangers, last_call = status
            blob = marshal.dumps((state, round_, waits[:2], strangers[:2], last_call))
        start = rank * _SLOT
        version = (_HEAD.unpack_from(self._memory, start)[1] + 1) & 0xFFFFFFFF
        _HEAD.pack_into(self._memory, start, len(blob), version)
        body = start + _HEAD.size
        self._view[body : body + len(blob)] = blob

    def count_posted(self, src: int, dst: int) -> None:
        """Note that `src` is about to send a control message to `dst`."""
        index = src * self._world_size + dst
        self._posted[index] = (self._posted[index] + 1) & 0xFFFFFFFF

    def count_handled(self, dst: int, src: int) -> None:
        """Note that `dst` has taken a control message of `src` into account, and has written its status since."""
        index = src * self._world_size + dst
        self._handled[index] = (self._handled[index] + 1) & 0xFFFFFFFF

    def count_all_handled(self, dst: int, src: int) -> None:
        """Note that `dst` will get nothing more from `src`, which has died, perhaps between counting and sending."""
        index = src * self._world_size + dst
        self._handled[index] = self._posted[index]

    def reset(self) -> None:
        """Start all counters again. Only when no rank is running and all inboxes are empty."""
        for index in range(len(self._posted)):
            self._posted[index] = self._handled[index] = 0

    def snapshot(self) -> bytes:
        """A copy of everything, to be compared with a later one and read with `statuses` and `on_their_way`."""
        return bytes(self._view)

    def statuses(self, snapshot: bytes) -> list[Status]:
        """The ranks' statuses in a snapshot. One that was being written just then reads as running."""
        return [_read(self.slot(snapshot, rank)) for rank in range(self._world_size)]

    def slot(self, snapshot: bytes, rank: int) -> bytes:
        """The status of a rank as it stands in a snapshot. It differs whenever the rank has written again meanwhile."""
        return snapshot[rank * _SLOT : (rank + 1) * _SLOT]

    def on_their_way(self, snapshot: bytes) -> set[int]:
        """The ranks that have control messages they have not yet taken into account."""
        size = self._world_size
        counters = memoryview(snapshot)[size * _SLOT :].cast("I")
        half = size * size
        return {index % size for index in range(half) if counters[index] != counters[half + index]}


def _read(slot: bytes) -> Status:
    length, _ = _HEAD.unpack_from(slot)
    try:
        return marshal.loads(slot[_HEAD.size : _HEAD.size + length])
    except (EOFError, ValueError, TypeError):
        return _UNKNOWN


def _allocate(path: str, size: int) -> None:
    """Make the file with all its memory, so that a full disk is an OSError here and not a crash later."""
    with open(path, "wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.write(b"\0" * size)
