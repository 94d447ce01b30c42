"""Small control messages between the ranks of one machine: one datagram socket per rank, in a private directory.

Control messages say "I have a tensor for you", "I take it", "everybody is at the barrier". They never travel through
gloo or NCCL, so a rank that waits for one can still be interrupted, asked where it is, and stopped.

    rank 0 ──datagram──►  directory/2  ◄──datagram── rank 1       one inbox: a message from anyone wakes rank 2
"""

from __future__ import annotations

import errno
import os
import pickle
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from distlib.worlds.real.status_board import StatusBoard

INLINE_BYTES = 32 * 1024  # a payload up to this size travels inside its control message
_LARGEST = 2 * INLINE_BYTES
_FULL = (errno.EAGAIN, errno.ENOBUFS)  # how a system says that an inbox is full: Linux, macOS
_RETRY = 0.0005  # seconds between attempts while another rank's inbox is full


def inbox_path(directory: str, rank: int) -> str:
    """Where the inbox of `rank` lies."""
    return os.path.join(directory, str(rank))


def open_inbox(directory: str, rank: int) -> socket.socket:
    """Make the inbox of `rank`. It exists before any rank starts, so nobody writes to one that isn't there."""
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * _LARGEST)
    inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * _LARGEST)
    inbox.bind(inbox_path(directory, rank))
    return inbox


class Mailbox:
    """One rank's inbox, and its way to the inboxes of the others."""

    def fileno(self) -> int:
        """So that a mailbox can be waited for with `select`."""
        raise NotImplementedError

    def post(self, dst: int, *fields: Any) -> None:
        """Send a control message to rank `dst`. Never blocks for long: what can't go out now does so later."""
        raise NotImplementedError

    def wake(self, *fields: Any) -> None:
        """Put a message into this rank's own inbox, so that its other thread, which may be in `next`, looks up.

        The one call that a thread may make while another uses the mailbox.
        """
        raise NotImplementedError

    def flush(self) -> bool:
        """Send what could not be sent before. True when nothing is left."""
        raise NotImplementedError

    def waiting(self) -> Iterator[tuple[Any, ...]]:
        """The messages that are here now, without blocking."""
        raise NotImplementedError

    def next(self, timeout: float | None = None) -> tuple[Any, ...] | None:
        """Block until a message is here and return it.

        None: look again. Something of our own could not go out yet, or `timeout` seconds are over.
        """
        raise NotImplementedError

    def discard(self) -> None:
        """Forget everything that was to be sent or read. For the end of a run that was stopped half-way."""
        raise NotImplementedError


class SocketMailbox(Mailbox):
    """A mailbox among the ranks of one machine."""

    def __init__(self, inbox: socket.socket, directory: str, rank: int, world_size: int, board: StatusBoard) -> None:
        self._inbox = inbox
        self._rank = rank
        self._addresses = [inbox_path(directory, peer) for peer in range(world_size)]
        self._board = board
        self._unsent: deque[tuple[int, bytes]] = deque()
        self._buffer = bytearray(_LARGEST)

    def fileno(self) -> int:
        return self._inbox.fileno()

    def post(self, dst: int, *fields: Any) -> None:
        self._board.count_posted(self._rank, dst)
        self._unsent.append((dst, pickle.dumps(fields, 5)))
        self.flush()

    def wake(self, *fields: Any) -> None:
        try:
            self._inbox.sendto(pickle.dumps(fields, 5), socket.MSG_DONTWAIT, self._addresses[self._rank])
            self._board.count_posted(self._rank, self._rank)
        except OSError as error:
            if error.errno not in _FULL:  # a full inbox wakes that thread as well
                raise

    def flush(self) -> bool:
        while self._unsent:
            dst, data = self._unsent[0]
            try:
                self._inbox.sendto(data, socket.MSG_DONTWAIT, self._addresses[dst])
            except (ConnectionRefusedError, FileNotFoundError):
                # That rank is gone; the supervisor has seen it and reports it. Nothing is on its way to it.
                self._board.count_handled(dst, self._rank)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                return False  # its inbox is full
            self._unsent.popleft()
        return True

    def waiting(self) -> Iterator[tuple[Any, ...]]:
        while True:
            try:
                size = self._inbox.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            yield pickle.loads(memoryview(self._buffer)[:size])

    def next(self, timeout: float | None = None) -> tuple[Any, ...] | None:
        if self.flush():
            if timeout is not None and not select.select([self._inbox], [], [], timeout)[0]:
                return None
            size = self._inbox.recv_into(self._buffer)
            return pickle.loads(memoryview(self._buffer)[:size])
        time.sleep(_RETRY)
        return next(self.waiting(), None)

    def discard(self) -> None:
        self._unsent.clear()
        for _ in self.waiting():
            pass
