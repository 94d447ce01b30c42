"""A rank's end of its connection to the head: a mailbox, a status board and commands, as a rank of a `World` has them.

    the rank's own thread ──post, publish, report──► head
    listening thread      ◄──messages, commands───── head        also while the rank computes: stop, kill

All control messages pass through the head, in the order in which a rank sends them along with its statuses. So the head
knows at any moment what is on its way to whom, and finds a deadlock as exactly as on one machine. Large tensors don't
pass through it: gloo moves them from rank to rank.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from multiprocessing import Pipe
from typing import Any

from distlib.launch.handshake import ProvenConnection
from distlib.launch.head_connection import (
    COMMAND,
    DEATH,
    GOODBYE,
    KILL,
    LOST,
    MESSAGE,
    POST,
    PUBLISH,
    RANK,
    REPORT,
    STATUS,
    STOP,
    hang_up,
)
from distlib.launch.statuses import write_status
from distlib.worlds.real import endpoint
from distlib.worlds.real.mailbox import Mailbox
from distlib.worlds.real.rank_process import STOP_SIGNAL
from distlib.worlds.real.status_board import Board, Status


class RankConnection(Board):
    """The connection of one rank.

    Args:
        connection: to the head.
        lost: what to say when the head is gone.

    Attributes:
        mailbox: control messages of other ranks.
        commands: what the head wants done; its other end is fed by the listening thread.
        shield: a block in which the rank can't be stopped. See `Endpoint.shield`.
        closing: whether this rank has hung up, so that the end of the connection is no surprise.
        stopping: whether the head has asked the rank to leave the function.
    """

    def __init__(self, connection: ProvenConnection, rank: int, lost: str) -> None:
        self.mailbox = LinkMailbox(self, rank)
        self.shield: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        self.closing = self.stopping = False
        self._connection, self._rank, self._lost = connection, rank, lost
        self._commands, self._feed = Pipe(duplex=False)
        self._lock = threading.Lock()
        self._rank_thread = threading.get_ident()

    def send(self, kind: bytes, body: bytes) -> None:
        """Say something to the head. A frame is never cut in half by a signal."""
        with self.shield(), self._lock, contextlib.suppress(OSError):  # the listening thread sees that it is gone
            self._connection.send_bytes(kind + body)

    def publish(self, rank: int, status: Status, handled: Sequence[int], dead: Collection[int] = ()) -> None:
        self.send(PUBLISH, write_status(status, [src for src in handled if src != rank]))

    # What a rank needs of the connection over which it gets its commands:

    def fileno(self) -> int:
        """So that commands can be waited for with `select`."""
        return self._commands.fileno()

    def recv_bytes(self) -> bytes:
        """Wait for the head's next command."""
        return self._commands.recv_bytes()

    def send_bytes(self, blob: bytes) -> None:
        """Send the head what a command came to, pickled."""
        self.send(REPORT, blob)

    # The listening thread:

    def listen(self) -> None:
        """Begin to take in what the head says."""
        threading.Thread(target=self._listen, name="listening", daemon=True).start()

    def _listen(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {STOP_SIGNAL, signal.SIGTERM, signal.SIGINT})
        while True:
            try:
                frame = self._connection.recv_bytes()
            except (EOFError, OSError):
                self._head_is_gone()
                return
            self._take_in(frame[:1], frame[1:])

    def _take_in(self, kind: bytes, body: bytes) -> None:
        if kind == MESSAGE:
            self.mailbox.take(body)
        elif kind == COMMAND:
            self.stopping = False
            self._feed.send_bytes(body)
        elif kind == LOST:
            run, dead = DEATH.unpack(body)
            self.mailbox.wake(run, endpoint.LOST, dead)
        elif kind == GOODBYE:
            self._feed.send_bytes(pickle.dumps(("exit", *STATUS.unpack(body))))
        elif kind == STOP:
            self.stopping = True
            signal.pthread_kill(self._rank_thread, STOP_SIGNAL)
        elif kind == KILL:
            os._exit(1)

    def _head_is_gone(self) -> None:
        if not self.closing:
            os.write(2, f"{self._lost}\n".encode())
            os._exit(1)

    def close(self) -> None:
        """Hang up. That the head is gone is no reason to end this rank then."""
        self.closing = True
        hang_up(self._connection)


class LinkMailbox(Mailbox):
    """The control messages of a rank, by way of the head. What a rank sends to itself stays here."""

    def __init__(self, link: RankConnection, rank: int) -> None:
        self._link, self._rank = link, rank
        self._messages: deque[bytes] = deque()
        self._bell, self._rope = os.pipe()
        for fd in (self._bell, self._rope):
            os.set_blocking(fd, False)

    def take(self, message: bytes) -> None:
        """Put a message into the inbox. From any thread."""
        self._messages.append(message)
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._rope, b"!")

    def fileno(self) -> int:
        return self._bell

    def post(self, dst: int, *fields: Any) -> None:
        message = pickle.dumps(fields, 5)
        if dst == self._rank:
            self.take(message)
        else:
            self._link.send(POST, RANK.pack(dst) + message)

    def wake(self, *fields: Any) -> None:
        self.take(pickle.dumps(fields, 5))

    def flush(self) -> bool:
        return True

    def waiting(self) -> Iterator[tuple[Any, ...]]:
        self._silence()
        while self._messages:
            yield pickle.loads(self._messages.popleft())

    def next(self, timeout: float | None = None) -> tuple[Any, ...] | None:
        if not self._messages:
            select.select([self._bell], [], [], timeout)
            self._silence()
        return pickle.loads(self._messages.popleft()) if self._messages else None

    def discard(self) -> None:
        self._silence()
        self._messages.clear()

    def _silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._bell, 65536)
