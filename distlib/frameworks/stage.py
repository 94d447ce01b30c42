"""Where the processes of one demonstration live: a network of their own, in which every port is free.

    kernel ──► bwrap or unshare ──► stage ──► chief, worker 0, ps 0, …
                └─ a new network: only its own loopback; nobody outside sees a port that is opened in it
                └─ a new process namespace: when the stage ends, the system ends everything in it

TensorFlow's and JAX's servers listen on all interfaces, 0.0.0.0: on a shared machine everybody could connect. In a
network of its own there is nobody else, and no other program that could have taken a port. See namespaces(7).

Where the system allows no new network (macOS, most containers), `addresses` reserves free ports: a socket is bound to
each of them on loopback for as long as the kernel lives, so that no other program gets it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from distlib.frameworks import on_stage

_FIRST_PORT = 2222  # as in TensorFlow's own examples
_TRIAL_SECONDS = 20.0
_END_PATIENCE = 2.0  # seconds for a stage to end what runs on it

_NEW_NAMESPACES = "--unshare-net --unshare-pid --unshare-uts --hostname localhost"
_BUBBLEWRAP = tuple(f"bwrap --die-with-parent {_NEW_NAMESPACES} --dev-bind / / --proc /proc".split())
_UNSHARE = tuple("unshare --net --pid --uts --fork --kill-child --mount-proc".split())  # of util-linux

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


def has_own_network() -> bool:
    """Whether processes of a demonstration have a network of their own on this machine."""
    return bool(_wrapper())


@functools.cache
def _wrapper() -> tuple[str, ...]:
    """The beginning of a command that runs in a new network; empty where the system allows none. Tries it, once."""
    return next((wrapper for wrapper in wrappers().values() if works(wrapper)), ())


def wrappers() -> dict[str, tuple[str, ...]]:
    """The ways to run a command in a new network, the best first."""
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    return {"bwrap": _BUBBLEWRAP, "unshare": (*_UNSHARE, *user)}


def works(wrapper: Sequence[str]) -> bool:
    """Whether a command that begins like this gets a network, with a loopback that can be listened on."""
    if shutil.which(wrapper[0]) is None:
        return False
    try:
        command = [*wrapper, *_stage_command(on_stage.TRIAL)]
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _stage_command(argument: str) -> list[str]:
    return [sys.executable, "-I", "-S", on_stage.__file__, argument]


def _reserve_port() -> socket.socket:
    """A bound socket that never listens: the system gives its port to nobody who asks for any port.

    A server that asks for this very port gets it, if it shares addresses (SO_REUSEADDR), as gRPC's do: socket(7).
    """
    held = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        held.setsockopt(socket.SOL_SOCKET, option, 1)
    held.bind(("127.0.0.1", 0))
    return held


class Stage:
    """The kernel's handle of a stage.

    Args:
        plan: for each process by name, what `on_stage.start` takes.
        files: the open files that it names.
    """

    def __init__(self, plan: Mapping[str, Mapping[str, Any]], files: Sequence[int]) -> None:
        self._socket, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [*_wrapper(), *_stage_command(str(theirs.fileno()))],
            pass_fds=[*files, theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,  # an interrupt from the keyboard is for the kernel
        )
        theirs.close()
        self._reports = b""
        with contextlib.suppress(OSError):  # a stage that failed has no reports either
            self._send(plan)

    def fileno(self) -> int:
        """For select: readable when there are reports."""
        return self._socket.fileno()

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process, if it still runs."""
        with contextlib.suppress(OSError):
            self._send([name, number])

    def reports(self) -> list[tuple[str, int, int]]:
        """Which processes have ended since the last call: name, exit status, peak memory in bytes.

        Raises:
            RuntimeError: the stage itself has failed.
        """
        data = self._socket.recv(65536)
        if not data:
            self._errors.seek(0)
            words = self._errors.read().decode(errors="replace").strip()
            raise RuntimeError(f"the processes could not be started or have been lost: {words or 'no reason given'}")
        *lines, self._reports = (self._reports + data).split(b"\n")
        return [tuple(json.loads(line)) for line in lines]

    def end(self) -> None:
        """End all processes. Returns when they are gone."""
        self._socket.close()
        try:
            self._process.wait(_END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._errors.close()

    def _send(self, message: Any) -> None:
        self._socket.sendall(f"{json.dumps(message)}\n".encode())
