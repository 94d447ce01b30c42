"""Where the processes of a demonstration live: a network of their own, in which every port is free.

    kernel ──► bwrap or unshare ──► stage ──fork──► chief, worker 0, ps 0, …
                │                     └─ imports a framework once, and is kept for the next demonstration
                └─ a new network: only its own loopback; nobody outside sees a port that is opened in it
                └─ a new process namespace: when the stage ends, the system ends everything in it

TensorFlow's and JAX's servers listen on all interfaces, 0.0.0.0: on a shared machine everybody could connect. In a
network of its own there is nobody else, and no other program that could have taken a port. See namespaces(7).

Where the system allows no new network (macOS, most containers), `addresses` reserves free ports: a socket is bound to
each of them on loopback for as long as the kernel lives, so that no other program gets it.

A stage that has imported a framework is kept when a demonstration has gone well: none of its processes are left, and
the next one starts in a fraction of a second. After an interrupt, a time limit or an exception it ends as well. What a
framework reads while it is imported can't be changed afterwards, so another environment means another stage.
`prepare` begins one before the first demonstration.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.frameworks import on_stage

_FIRST_PORT = 2222  # as in TensorFlow's own examples
_TRIAL_SECONDS = 20.0
_END_PATIENCE = 2.0  # seconds for a stage to end what runs on it, and itself
_CLEAR_PATIENCE = 10.0  # seconds to end what runs on it: on a busy machine less than another import
_MOST_KEPT = 2  # stages that wait for another demonstration; one with TensorFlow takes 0.4 GB
_PROGRAM = "import sys; sys.path[:] = sys.argv[2:]\nfrom distlib.frameworks.on_stage import main; main(sys.argv[1])"

_NEW_NAMESPACES = "--unshare-net --unshare-pid --unshare-uts --hostname localhost"
_BUBBLEWRAP = tuple(f"bwrap --die-with-parent {_NEW_NAMESPACES} --dev-bind / / --proc /proc".split())
_UNSHARE = tuple("unshare --net --pid --uts --fork --kill-child --mount-proc".split())  # of util-linux
_AS_A_CHILD = ("sh", "-c", '"$@" & wait $!', "sh")  # the first process of a namespace can't be killed from inside

_reserved: list[socket.socket] = []
_kept: list[Stage] = []  # the one that was used last comes last


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
    return {"bwrap": _BUBBLEWRAP, "unshare": (*_UNSHARE, *user, *_AS_A_CHILD)}


def works(wrapper: Sequence[str]) -> bool:
    """Whether a command that begins like this gets a network, with a loopback that can be listened on."""
    if shutil.which(wrapper[0]) is None:
        return False
    try:
        command = [*wrapper, sys.executable, "-I", "-S", on_stage.__file__, on_stage.TRIAL]
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


@dataclass
class Setting:
    """What makes one stage unlike another: what is there before anything is imported on it."""

    environment: dict[str, str]
    path: list[str]
    wrapper: tuple[str, ...]
    kernel: int


def setting(environment: dict[str, str]) -> Setting:
    """That of a stage which is started now."""
    return Setting(environment, list(sys.path), _wrapper(), os.getpid())


@contextlib.contextmanager
def borrowed(environment: dict[str, str], frameworks: Sequence[str]) -> Iterator[Stage]:
    """A stage for one demonstration: one that was kept, or a new one. An exception in the block ends it.

    Args:
        environment: of the imports; processes may have more in theirs.
        frameworks: what the stage imports, if it can. Without any it is not worth keeping.
    """
    stage = _take(setting(environment))
    try:
        stage.order({"import": list(frameworks)})
        yield stage
        is_kept = bool(frameworks) and stage.clear()
    except BaseException:
        stage.end()
        raise
    if not is_kept:
        return stage.end()
    _keep(stage)


def prepare(environment: dict[str, str], frameworks: Sequence[str]) -> None:
    """Begin to import frameworks on a stage, and keep it for a demonstration. Returns at once. Arguments: see above."""
    stage = _take(setting(environment))
    stage.order({"import": list(frameworks)})
    _keep(stage)


def _take(wanted: Setting) -> Stage:
    """A stage that was kept, or a new one."""
    _kept[:] = [kept for kept in _kept if kept.is_alive()]
    found = next((kept for kept in reversed(_kept) if kept.setting == wanted), None)
    if found is None:
        return Stage(wanted)
    _kept.remove(found)
    return found


def _keep(stage: Stage) -> None:
    _kept.append(stage)
    while len(_kept) > _MOST_KEPT:
        _kept.pop(0).end()


@atexit.register
def end_kept() -> None:
    """End the stages that wait for another demonstration."""
    for stage in _kept:
        if stage.setting.kernel == os.getpid():
            stage.end()
    _kept.clear()


class Stage:
    """The kernel's handle of a stage. `setting`: what it begins with."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._socket, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [*setting.wrapper, sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *setting.path],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env=setting.environment,
            start_new_session=True,  # an interrupt from the keyboard is for the kernel
        )
        theirs.close()
        self._reports = b""

    def fileno(self) -> int:
        """For select: readable when there are reports."""
        return self._socket.fileno()

    def is_alive(self) -> bool:
        """Whether it can be asked for anything."""
        return self._process.poll() is None

    def start(self, name: str, environment: dict[str, str], command: Sequence[str], files: Sequence[int]) -> None:
        """Start a process. The arguments are those of `on_stage.begin`; the stage has its own copies of the files."""
        self.order({"start": name, "environment": environment, "command": list(command)}, files)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a process, if it still runs."""
        self.order({"signal": [name, number]})

    def order(self, order: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Tell it to do something, see `on_stage`. A stage that has failed says so when its reports are read."""
        data = f"{json.dumps(order)}\n".encode()
        with contextlib.suppress(OSError):
            sent = socket.send_fds(self._socket, [data], files) if files else 0
            self._socket.sendall(data[sent:])

    def reports(self) -> list[tuple[str, int, int]]:
        """Which processes have ended since the last call: name, exit status, peak memory in bytes.

        Raises:
            RuntimeError: the stage itself has failed.
        """
        return [tuple(report) for report in self._read() if report]

    def clear(self) -> bool:
        """End all processes. Returns whether they are gone, and the stage can be used again."""
        self.order({"end": True})
        self._socket.settimeout(_CLEAR_PATIENCE)
        try:
            while [] not in self._read():
                pass
        except (RuntimeError, OSError):
            return False
        self._socket.settimeout(None)
        return True

    def end(self) -> None:
        """End all processes, and the stage. Returns when they are gone."""
        self._socket.close()
        try:
            self._process.wait(_END_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._errors.close()

    def _read(self) -> list[list[Any]]:
        data = self._socket.recv(65536)
        if not data:
            self._errors.seek(0)
            words = self._errors.read().decode(errors="replace").strip()
            raise RuntimeError(f"the processes could not be started or have been lost: {words or 'no reason given'}")
        *lines, self._reports = (self._reports + data).split(b"\n")
        return [json.loads(line) for line in lines]
