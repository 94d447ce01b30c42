"""The process that ranks are forked from: small, single-threaded, with torch already imported.

    notebook kernel ──socket──► fork server ──fork──► rank 0, rank 1, …

A kernel must not fork itself: it has threads, and perhaps a CUDA context. Starting a fresh Python for every rank would
import torch each time. So one fresh Python imports torch once, and each rank is a fork of it that costs milliseconds
and shares its memory.

The fork server ends when the kernel's end of the socket closes, however the kernel ended, and takes all ranks with it,
also a rank that is stuck in a C++ call. On Linux a rank dies with the fork server, too. Only the fork server signals
ranks: they are its own children, and it knows which of them still exist.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import pickle
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from distlib.worlds import private_torch
from distlib.worlds.real import shared_memory
from distlib.worlds.real.rank_place import ENVIRONMENT, RankPlace

_LARGEST_REQUEST = 65536
_START_TIMEOUT = 180.0  # seconds; importing torch from a cold disk can take long, on a busy machine very long
_REAP_EVERY = 0.5  # seconds between looks at which ranks have ended


# ── in the kernel ────────────────────────────────────────────────────────────────────────────────────────────────────


class ForkServer:
    """The kernel's handle of its fork server. Started in the background; the first request waits until it is ready.

    Attributes:
        owner: the process that has started it.
        environment: the variables of that process at that time.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.environment = dict(os.environ)
        occupy_standard_streams()
        self._lock = threading.RLock()
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_START_TIMEOUT)
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            fresh_python(f"from distlib.worlds.real.forkserver import serve; serve({theirs.fileno()})"),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**self.environment, **ENVIRONMENT},
            start_new_session=True,  # an interrupt from the keyboard is for the kernel, which passes on what it means
        )
        theirs.close()

    def spawn(self, place: RankPlace, fds: Sequence[int]) -> int:
        """Fork a rank, which runs `rank_process.main(place, fds)`. Returns its process id.

        Where the kernel has built an optimizer, ranks will: then what that imports is there when the rank begins.
        """
        return self._request(
            ("spawn", place, [name for name in private_torch.IMPORTED_LATE if name in sys.modules]), fds
        )

    def memory_problem(self) -> str | None:
        """Why ranks can't read each other's memory; None if they can. See shared_memory."""
        return self._request(("memory_problem",))

    def signal(self, pids: Sequence[int], number: int) -> None:
        """Send a signal to those of `pids` that are ranks and still exist."""
        self._request(("signal", list(pids), int(number)))

    def exit_statuses(self, pids: Sequence[int]) -> list[int | None]:
        """How each rank ended: its exit code, or minus the signal that killed it; None for one that still runs."""
        return self._request(("status", list(pids)))

    @property
    def alive(self) -> bool:
        """Whether it can be asked for anything; false in a process that was forked from the kernel."""
        return self._socket.fileno() >= 0 and self.owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        """End the fork server and with it every rank."""
        self._socket.close()
        self._errors.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)

    def _request(self, request: tuple[Any, ...], fds: Sequence[int] = ()) -> Any:
        with self._lock:
            try:
                socket.send_fds(self._socket, [pickle.dumps(request)], list(fds))
                answer = self._socket.recv(_LARGEST_REQUEST)
            except OSError as error:
                message = f"the process that starts ranks does not answer ({error}). {self._last_words()}"
                raise RuntimeError(message) from None
            except BaseException:  # interrupted: a late answer must not be taken for that of the next request
                self.close()
                raise
            if not answer:
                raise RuntimeError(f"the process that starts ranks has ended. {self._last_words()}")
        succeeded, value = pickle.loads(answer)
        if not succeeded:
            raise OSError(f"a rank could not be started: {value}")
        return value

    def _last_words(self) -> str:
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip()
        return f"It said:\n{words}" if words else "Run `distlib doctor` to find out why."


_current: ForkServer | None = None


def current() -> ForkServer:
    """The kernel's fork server; started if there is none. Returns at once: it gets ready in the background."""
    global _current
    if _current is None or not _current.alive:
        _current = ForkServer()
        atexit.register(_current.close)
    return _current


def occupy_standard_streams() -> None:
    """Where a standard stream is closed, as a daemon's is, open it to nowhere: else a pipe to a rank takes its place.

    The places 0, 1 and 2 of a process are what its children read and write as their standard streams.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)


def fresh_python(program: str) -> list[str]:
    """The command of a new Python to fork ranks from. Run it in ENVIRONMENT. It imports from where this one does.

    Args:
        program: what it runs. The garbage collector is off, since it finds nothing while torch is imported; when that
            is done, `freeze` turns it on.
    """
    path = list(dict.fromkeys([*sys.path, str(Path(__file__).absolute().parents[3])]))
    return [sys.executable, "-c", f"import gc, sys; gc.disable(); sys.path[:] = {path!r}; {program}"]


# ── in the fork server ───────────────────────────────────────────────────────────────────────────────────────────────


def serve(fd: int) -> None:
    """Answer the kernel's requests until it is gone, then end all ranks."""
    import torch.distributed  # noqa: F401  (what a rank needs, imported once for all of them)

    from distlib.worlds.real import rank_process

    control = socket.socket(fileno=fd)
    ranks: set[int] = set()
    ended: dict[int, int] = {}
    directories: set[str] = set()
    freeze()
    while True:
        readable, _, _ = select.select([control], [], [], _REAP_EVERY if ranks else None)
        _reap(ranks, ended)
        if not readable:
            continue
        data, fds, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 16)
        if not data:
            break
        request = pickle.loads(data)
        if request[0] == "spawn":
            directories.add(request[1].directory)
        answer = _answer(request, fds, ranks, ended, control, rank_process.main)
        control.sendall(pickle.dumps(answer))
    for pid in ranks:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for directory in directories:  # a kernel that was killed could not clean up itself
        shutil.rmtree(directory, ignore_errors=True)


def _answer(
    request: tuple[Any, ...], fds: list[int], ranks: set[int], ended: dict[int, int], control: socket.socket, main: Any
) -> tuple[bool, Any]:
    kind, *values = request
    if kind == "spawn":
        _import_for_ranks(values[1])
        return _fork(values[0], fds, ranks, control, main)
    if kind == "signal":
        for pid in ranks.intersection(values[0]):
            os.kill(pid, values[1])
        return True, None
    if kind == "memory_problem":
        return True, shared_memory.problem()
    return True, [ended.get(pid) for pid in values[0]]


def _import_for_ranks(names: Sequence[str]) -> None:
    missing = [name for name in names if name not in sys.modules]
    for name in missing:
        import_module(name)
    if missing:
        gc.freeze()


def _fork(arguments: Any, fds: list[int], ranks: set[int], control: socket.socket, main: Any) -> tuple[bool, Any]:
    try:
        pid = os.fork()
    except OSError as error:
        return False, str(error)
    if pid == 0:
        control.close()
        die_with_parent()
        main(arguments, fds)
        os._exit(0)
    for fd in fds:
        os.close(fd)
    ranks.add(pid)
    return True, pid


def _reap(ranks: set[int], ended: dict[int, int]) -> None:
    for pid in list(ranks):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ranks.discard(pid)
            ended[pid] = os.waitstatus_to_exitcode(status)


def freeze() -> None:
    """All that ranks need is imported: from now on a garbage collector, also that of a rank, leaves it alone.

    So the pages with it stay shared.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def die_with_parent() -> None:
    """Linux: have the system kill this process when the one that has forked it ends, even if that is killed."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
