"""A network of their own for the processes of a demonstration, in which every port is free.

    kernel ──► bwrap or unshare ──► fork server ──fork──► chief, worker 0, ps 0, …
                │
                └─ a new network: only its own loopback; nobody outside sees a port that is opened in it
                └─ a new process namespace: when the fork server ends, the system ends everything in it

TensorFlow's and JAX's servers listen on all interfaces, 0.0.0.0: on a shared machine everybody could connect. In a
network of its own there is nobody else, and no other program that could have taken a port. See namespaces(7).

Where the system allows no new network (macOS, most containers), `addresses` reserves free ports: a socket is bound to
each of them on loopback for as long as the kernel lives, so that no other program gets it.

This file is also run by itself, in a new network, to see whether it can be listened there: it imports nothing else.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

_FIRST_PORT = 2222  # as in TensorFlow's own examples
_TRIAL_SECONDS = 20.0
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP: netdevice(7)
_REQUEST = "16sh22x"  # struct ifreq: an interface's name and flags

_NEW_NAMESPACES = "--unshare-net --unshare-pid --unshare-uts --hostname localhost"
_BUBBLEWRAP = tuple(f"bwrap --die-with-parent {_NEW_NAMESPACES} --dev-bind / / --proc /proc".split())
_UNSHARE = tuple("unshare --net --pid --uts --fork --kill-child --mount-proc".split())  # of util-linux
_AS_A_CHILD = ("sh", "-c", '"$@" & wait $!', "sh")  # the first process of a namespace can't be killed from inside

_reserved: list[socket.socket] = []


def addresses(count: int) -> list[str]:
    """Addresses that servers of a demonstration can listen on, "127.0.0.1:2222" and so on; the same at each call.

    Raises:
        ValueError: count is below 1.
    """
    if count < 1:
        raise ValueError(f"addresses expects how many are needed, at least 1, got {count}")
    if has_own_network():
        return [f"127.0.0.1:{_FIRST_PORT + index}" for index in range(count)]
    while len(_reserved) < count:
        _reserved.append(_reserve_port())
    return [f"127.0.0.1:{held.getsockname()[1]}" for held in _reserved[:count]]


def loopback() -> str:
    """The loopback's name, on which ranks of gloo are to meet: "lo", on macOS "lo0"."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")


def has_own_network() -> bool:
    """Whether processes of a demonstration have a network of their own on this machine."""
    return bool(wrapper())


@functools.cache
def wrapper() -> tuple[str, ...]:
    """The beginning of a command that runs in a new network; empty where the system allows none. Tries it, once."""
    return next((wrapper for wrapper in wrappers().values() if works(wrapper)), ())


def wrappers() -> dict[str, tuple[str, ...]]:
    """The ways to run a command in a new network, the best first."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    return {"bwrap": _BUBBLEWRAP, "unshare": (*_UNSHARE, *user, *_AS_A_CHILD)}


def works(wrapper: Sequence[str]) -> bool:
    """Whether a command that begins like this gets a network, with a loopback that can be listened on."""
    if shutil.which(wrapper[0]) is None:
        return False
    try:
        command = [*wrapper, sys.executable, "-I", "-S", __file__]
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _reserve_port() -> socket.socket:
    """A bound socket that never listens: the system gives its port to nobody who asks for any port.

    A server that asks for this very port gets it, if it shares addresses (SO_REUSEADDR), as gRPC's do: socket(7).
    """
    held = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        held.setsockopt(socket.SOL_SOCKET, option, 1)
    held.bind(("127.0.0.1", 0))
    return held


# ── in the network ───────────────────────────────────────────────────────────────────────────────────────────────────


def raise_loopback() -> None:
    """Linux: a new network has a loopback interface, but it is down. Elsewhere it is up, and stays as it is.

    Raises:
        PermissionError: it is down, and this process may not change that.
    """
    if sys.platform != "linux":
        return
    with socket.socket() as any_socket:
        _, flags = struct.unpack(_REQUEST, fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack(_REQUEST, b"lo", 0)))
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, b"lo", flags | _UP))
            socket.sethostname("localhost")  # what looks for this machine's own address finds one that is there


if __name__ == "__main__":
    raise_loopback()
    socket.create_server(("127.0.0.1", 0)).close()
