"""The connection between a rank and the head: how it is made, and what is said on it.

    rank ──► head    Hello    which rank it is                                                           JSON
                     POST     a control message for another rank: its number, then the message           pickle
                     PUBLISH  what the rank waits for, and whose messages it has handled                 JSON
                     REPORT   the answer to a command                                                    pickle
                     PRINT    what it has printed, where the head is to show it: 1 or 2 (as of a descriptor), the text
    head ──► rank    Welcome  how it is reached by the others                                            JSON
                     MESSAGE  a control message of another rank                                          pickle
                     LOST     a rank that has died, and in which run: two numbers
                     COMMAND  run a function, end the run                                                pickle
                     STOP     leave the function
                     KILL     exit now, whatever you are doing
                     GOODBYE  exit with this status, a number

A pickle may be a program. So either side reads one only from the other that has proved to know the secret, in a frame
that proves it, too (see `handshake`); and who is on the same machine must be the same user (see `peer_user`). Nothing
is encrypted: for networks on which nobody else listens.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import TypeVar, get_type_hints

from distlib.launch.environment import LaunchError
from distlib.launch.handshake import ProvenConnection, prove_as_head, prove_as_rank
from distlib.launch.peer_user import is_stranger

POST, PUBLISH, REPORT, PRINT, MESSAGE, LOST, COMMAND, STOP, KILL, GOODBYE = (bytes([number]) for number in range(10))
RANK = struct.Struct("<I")  # in front of the message of a POST
DEATH = struct.Struct("<QI")  # a run, and who has died in it
STATUS = struct.Struct("<i")  # of a GOODBYE

SILENCE = 3  # seconds after which a machine that does not answer counts as gone
_OTHER_VERSION = "Do all nodes have the same version of distlib?"
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


Form = TypeVar("Form", Hello, Welcome)


def write_form(form: Hello | Welcome) -> bytes:
    """The bytes of a form, as they travel."""
    return json.dumps(asdict(form)).encode()


def read_form(kind: type[Form], frame: bytes) -> Form:
    """What `write_form` has written.

    Raises:
        LaunchError: it is something else.
    """
    values, types = json.loads(frame), get_type_hints(kind)
    if not isinstance(values, dict) or values.keys() != types.keys():
        raise LaunchError(f"expected a {kind.__name__}, got {frame[:100]!r}. {_OTHER_VERSION}")
    if wrong := [name for name, value in values.items() if not isinstance(value, types[name])]:
        raise LaunchError(f"{wrong[0]} of a {kind.__name__} is {values[wrong[0]]!r}. {_OTHER_VERSION}")
    return kind(**values)


def call(host: str, port: int, key: bytes, patience: float) -> ProvenConnection:
    """Connect to the head.

    Raises:
        OSError, EOFError, AuthenticationError: nobody is there, or somebody else.
    """
    peer = socket.create_connection((host, port), timeout=patience)
    peer.settimeout(None)
    connection = _connection(peer)
    with _in_time(connection):
        select.select([connection], [], [], _HANDSHAKE)  # once it speaks, the other end is somebody's
        _refuse_strangers(connection)
        return prove_as_rank(connection, key)


def answer(peer: socket.socket, key: bytes) -> ProvenConnection:
    """Be the head that somebody connects to. Raises as `call` does."""
    connection = _connection(peer)
    with _in_time(connection):
        _refuse_strangers(connection)
        return prove_as_head(connection, key)


def _refuse_strangers(connection: Connection) -> None:
    with _socket_of(connection) as both:
        if is_stranger(both):
            raise AuthenticationError("another user of this machine is at the other end")


def addresses_of(connection: ProvenConnection) -> tuple[str, str]:
    """The addresses of the two machines, this one's first, as this end sees them."""
    with _socket_of(connection) as both:
        return both.getsockname()[0], both.getpeername()[0]


def hang_up(connection: ProvenConnection) -> None:
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


def _socket_of(connection: Connection | ProvenConnection) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.fileno()))
