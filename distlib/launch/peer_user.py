"""Which user is at the other end of a connection that does not leave this machine: `is_stranger`.

Linux lists both ends of each connection with their users in /proc/net/tcp (proc(5)):

    local_address  rem_address    st … uid       an address is four bytes, lowest first, then the port
    0100007F:9C40  0100007F:A2B8  01 … 1000      127.0.0.1:40000, connected with 127.0.0.1:41656, is user 1000's
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_TABLE = Path("/proc/net/tcp")
_CONNECTED = "01"
_LOOKS = 5  # the table is not read at once: when other connections end, a row may be missed, or come twice


def is_stranger(both: socket.socket) -> bool:
    """Whether the other end is on this machine, and not this user's.

    Of another machine's users nothing is known, and nothing where the system has no such table: then False.

    Args:
        both: a connected socket of IPv4.
    """
    own, other = both.getsockname(), both.getpeername()
    if other[0] != own[0] and not other[0].startswith("127."):
        return False
    ends = [_written(other), _written(own), _CONNECTED]
    try:
        users = next(filter(None, (_users(ends) for _ in range(_LOOKS))), set())
    except OSError:
        return False
    return users != {str(os.geteuid())}


def _users(ends: list[str]) -> set[str]:
    rows = [line.split() for line in _TABLE.read_text().splitlines()[1:]]
    return {row[7] for row in rows if row[1:4] == ends}


def _written(address: tuple[str, int]) -> str:
    """As the table has an address, in this machine's order of bytes."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
