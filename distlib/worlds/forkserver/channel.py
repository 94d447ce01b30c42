"""What goes between a kernel and its fork server: values, pickled, and open files along with them."""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("!Q")
_MOST_FILES = 16  # that come along with a value


class Channel:
    """One end of it. Both are this same user's processes, and trust each other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def of(cls, fd: int) -> Channel:
        """The end whose file number is `fd`, in the fork server."""
        connection = socket.socket(fileno=fd)
        connection.set_inheritable(False)
        return cls(connection)

    def fileno(self) -> int:
        """For select; -1 when it is closed."""
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()

    def wait_at_most(self, seconds: float) -> None:
        """From now on, sending and receiving raise TimeoutError after so long."""
        self._connection.settimeout(seconds)

    def send(self, value: Any, files: Sequence[int] = ()) -> None:
        """Send a value; the other side gets its own copies of the files.

        Raises:
            OSError: the other side is gone, or does not read.
        """
        body = pickle.dumps(value)
        data = _LENGTH.pack(len(body)) + body
        sent = socket.send_fds(self._connection, [data], list(files)) if files else 0
        self._connection.sendall(data[sent:])

    def receive(self) -> tuple[Any, list[int]]:
        """The next value, and the files that came with it; what is executed later does not inherit them.

        Raises:
            EOFError: there is none, and the other side is gone.
            OSError: likewise, or it has been silent for too long.
        """
        start, files, _, _ = socket.recv_fds(self._connection, _LENGTH.size, _MOST_FILES)
        for file in files:
            os.set_inheritable(file, False)
        (length,) = _LENGTH.unpack(start + self._exactly(_LENGTH.size - len(start)))
        return pickle.loads(self._exactly(length)), files

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self._connection.recv(length - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)
