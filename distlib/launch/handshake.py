"""Two processes prove to each other that they know a secret, which never travels; then each frame proves it, too.

    head ──► rank    N_h                                          32 bytes that were never used before
    rank ──► head    N_r, HMAC(secret, "rank" + N_h + N_r)        who can't make this is hung up on
    head ──► rank    HMAC(secret, "head" + N_h + N_r)             likewise
    both     ──►     tag 16 bytes │ frame                         tag: of direction, number of the frame, and frame

The key of the tags is HMAC(secret, "frames" + N_h + N_r). So whoever only passes on what the two say can't change a
frame, or leave one out, or say it again. Nothing is encrypted. HMAC: RFC 2104; mutual proof by two random numbers:
ISO/IEC 9798-4.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection

_RANDOM = _PROOF = 32  # bytes
_TAG = 16
_NUMBER = struct.Struct("<Q")


class ProvenConnection:
    """A connection whose frames come from the one that has proved to know the secret, each once and in order.

    Args:
        connection: to the other one.
        key: of this connection.
        sends, receives: the names of the two directions.

    One thread at a time may send, and one receive.
    """

    def __init__(self, connection: Connection, key: bytes, sends: bytes, receives: bytes) -> None:
        self._connection, self._key = connection, key
        self._sends, self._receives = sends, receives
        self._sent = self._received = 0

    def send_bytes(self, frame: bytes) -> None:
        """Send a frame. Raises OSError if nobody is there."""
        tag = self._tag(self._sends, self._sent, frame)
        self._sent += 1
        self._connection.send_bytes(tag + frame)

    def recv_bytes(self) -> bytes:
        """The next frame. Raises EOFError at the end, and OSError if it is not as the other one has sent it."""
        received = self._connection.recv_bytes()
        tag, frame = received[:_TAG], received[_TAG:]
        if not hmac.compare_digest(tag, self._tag(self._receives, self._received, frame)):
            raise OSError("somebody else has spoken on this connection")
        self._received += 1
        return frame

    def fileno(self) -> int:
        """So that frames can be waited for with `select`."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close this end of the connection."""
        self._connection.close()

    def _tag(self, direction: bytes, number: int, frame: bytes) -> bytes:
        made = hashlib.blake2b(direction + _NUMBER.pack(number), key=self._key, digest_size=_TAG)
        made.update(frame)
        return made.digest()


def prove_as_head(connection: Connection, secret: bytes) -> ProvenConnection:
    """Be the one that is called.

    Raises:
        OSError, EOFError, AuthenticationError: nobody is there, or somebody who does not know the secret.
    """
    own = secrets.token_bytes(_RANDOM)
    connection.send_bytes(own)
    answer = connection.recv_bytes(_RANDOM + _PROOF)
    numbers = own + answer[:_RANDOM]
    _check(answer[_RANDOM:], _proof(secret, b"rank", numbers))
    connection.send_bytes(_proof(secret, b"head", numbers))
    return ProvenConnection(connection, _proof(secret, b"frames", numbers), b"head", b"rank")


def prove_as_rank(connection: Connection, secret: bytes) -> ProvenConnection:
    """Be the one that calls. Raises as `prove_as_head` does."""
    own = secrets.token_bytes(_RANDOM)
    numbers = connection.recv_bytes(_RANDOM) + own
    if len(numbers) != 2 * _RANDOM:
        raise AuthenticationError("that is not how a head begins")
    connection.send_bytes(own + _proof(secret, b"rank", numbers))
    _check(connection.recv_bytes(_PROOF), _proof(secret, b"head", numbers))
    return ProvenConnection(connection, _proof(secret, b"frames", numbers), b"rank", b"head")


def _proof(secret: bytes, role: bytes, numbers: bytes) -> bytes:
    return hmac.digest(secret, role + numbers, "sha256")


def _check(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise AuthenticationError("the other one does not know the secret")
