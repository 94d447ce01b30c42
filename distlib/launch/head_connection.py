"""The connection between a rank and the head: how it is made, and what is said on it.

    rank ──► head    POST     a control message for another rank: its number, then the message
                     PUBLISH  what the rank waits for, and whose messages it has handled
                     REPORT   the answer to a command
                     PRINT    what it has printed, where the head is to show it: 1 or 2 (as of a descriptor), the text
    head ──► rank    MESSAGE  a control message of another rank
                     COMMAND  run a function, end the run, exit
                     STOP     leave the function
                     KILL     exit now, whatever you are doing

Both sides prove that they know the secret before either reads what could be a program (a pickle) of the other. Then all
of it is in the open, as with torch's own stores and gloo: for networks on which nobody else listens.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

POST, PUBLISH, REPORT, PRINT, MESSAGE, COMMAND, STOP, KILL = (bytes([number]) for number in range(8))
RANK = struct.Struct("<I")  # in front of the message of a POST

SILENCE = 3  # seconds after which a machine that does not answer counts as gone
_HANDSHAKE = 10  # seconds for each step of it


@dataclass(frozen=True)
class Hello:
    """What a rank says of itself when it has reached the head.

    Attributes:
        rank, world_size, node, node_name: see `Placement`.
        pid: of its process.
        card: the identity of the GPU that it would take; None if it has none.
    """

    rank: int
    world_size: int
    node: int
    node_name: str
    pid: int
    card: str | None = None


@dataclass(frozen=True)
class Welcome:
    """What the head answers when all have come.

    Attributes:
        host: the address of the rank's machine, for the other ranks.
        token: a name that no other start has, for stores.
        shows: whether the head shows what ranks print; else they do so themselves.
        backend: "gloo" or "nccl".
        cards_are_shared: whether some ranks have the same GPU.
    """

    host: str
    token: str
    shows: bool
    backend: str = "gloo"
    cards_are_shared: bool = False


def call(host: str, port: int, key: bytes, patience: float) -> Connection:
    """Connect to the head.

    Raises:
        OSError, EOFError, AuthenticationError: nobody is there, or somebody else.
    """
    peer = socket.create_connection((host, port), timeout=patience)
    peer.settimeout(None)
    connection = _connection(peer)
    with _in_time(connection):
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
    return connection


def answer(peer: socket.socket, key: bytes) -> Connection:
    """Be the head that somebody connects to. Raises as `call` does."""
    connection = _connection(peer)
    with _in_time(connection):
        deliver_challenge(connection, key)
        answer_challenge(connection, key)
    return connection


def addresses_of(connection: Connection) -> tuple[str, str]:
    """The addresses of the two machines, this one's first, as this end sees them."""
    with _socket_of(connection) as both:
        return both.getsockname()[0], both.getpeername()[0]


def hang_up(connection: Connection) -> None:
    """End the conversation: what was said before still arrives, then both sides see the end."""
    with contextlib.suppress(OSError), _socket_of(connection) as both:
        both.shutdown(socket.SHUT_RDWR)


def _connection(peer: socket.socket) -> Connection:
    """A connection that ends when the other machine has been silent for SILENCE seconds, also by a cut cable."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 1),
        ("TCP_KEEPALIVE", 1),  # as macOS calls it
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", SILENCE - 1),
        ("TCP_USER_TIMEOUT", 1000 * SILENCE),
    ):
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(peer.detach())


@contextlib.contextmanager
def _in_time(connection: Connection) -> Iterator[None]:
    """In this block, a read that takes too long is an error, after which the connection is closed."""
    _set_patience(connection, _HANDSHAKE)
    try:
        yield
    except BaseException:
        connection.close()
        raise
    _set_patience(connection, 0)


def _set_patience(connection: Connection, seconds: int) -> None:
    with _socket_of(connection) as both:
        both.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def _socket_of(connection: Connection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))
