"""What runs in a fork server: import, fork, report, and at the end leave nothing behind.

The kernel sends requests, each answered in turn; in between stand reports of processes that have ended.

    ("import", ["tensorflow"])                   for all processes to come
    ("spawn", name, arguments)  and open files   fork one; the answer: its number, or why there is none
    ("signal", [name, …], 9)                     send a signal to those that still exist
    ("look",)                                    report all that have ended, before the answer
    ("clear",)                                   end all; when the answer comes, they are gone
    ("call", module, function)                   call a function, here; the answer: what it returns
    ("remove_at_end", folder)                    when the kernel is gone: one that was killed can't do it
    ("answer", value), ("failed", why)     ◄──
    ("ended", name, status, peak bytes)    ◄──   its exit code, or minus the signal; its peak memory

A fork is safe as long as nothing has been computed: torch, TensorFlow and JAX start neither threads nor devices before
their first use. So it imports, and computes nothing, and has one thread all its life.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from distlib.worlds.forkserver.channel import Channel
from distlib.worlds.native_stack import STACK_SIGNAL

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, prctl(2)
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_GUARD_MILLISECONDS = 500
_CAN_LOOK = hasattr(os, "waitid")  # whether it can learn that a process has ended before it lets go of its number


def serve(control: Channel) -> tuple[Any, list[int]] | None:
    """The life of a fork server, until the kernel is gone: None.

    In each process that it forks, this returns as well: the arguments and the files of that process.
    """
    freeze()
    return _Service(control).serve()


class _Service:
    def __init__(self, control: Channel) -> None:
        self._control = control
        self._running: dict[Hashable, int] = {}  # the number of each process, which leads a group of the same number
        self._folders: list[str] = []

    def serve(self) -> tuple[Any, list[int]] | None:
        signal.signal(STACK_SIGNAL, signal.SIG_IGN)  # until a process can answer it, it does no harm
        adopt_orphans()
        with _ends_of_children() as ends, contextlib.suppress(EOFError, ConnectionError):  # the kernel is gone
            while True:
                readable, _, _ = select.select([self._control.fileno(), ends], [], [])
                if ends in readable:
                    os.read(ends, 4096)
                self._look()
                if self._control.fileno() in readable:
                    (kind, *values), files = self._control.receive()
                    if kind != "spawn":
                        self._control.send(("answer", getattr(self, f"_{kind}")(*values)))
                    elif self._spawn(values[0], files):
                        return values[1], files
        self._clear()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        return None

    def _import(self, names: Sequence[str]) -> None:
        """Import what is not imported yet. What can't be imported is left to the processes, which say why."""
        missing = [name for name in names if name not in sys.modules]
        if not missing:
            return
        gc.disable()  # while modules are imported, there is nothing for it to find
        with end_with(self._control):
            for name in missing:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        freeze()

    def _spawn(self, name: Hashable, files: list[int]) -> bool:
        """Fork a process, in a group of its own. Returns whether this is it."""
        try:
            pid = os.fork()
        except OSError as error:
            self._control.send(("failed", str(error)))
        else:
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)  # on both sides: until there is a group, a signal to it would be lost
            if pid == 0:
                self._control.close()
                return True
            self._running[name] = pid
            self._control.send(("answer", pid))
        for file in files:
            os.close(file)
        return False

    def _signal(self, names: Sequence[Hashable], number: int) -> None:
        for name in names:
            if name in self._running:
                _send_signal(self._running[name], number)

    def _look(self) -> None:
        """Report the processes that have ended, and clear away all other children that have, too."""
        if not _CAN_LOOK:
            for name in list(self._running):
                self._bury(name, os.WNOHANG)
            return
        names = {pid: name for name, pid in self._running.items()}
        while pid := _an_ended_child():
            if pid in names:
                self._bury(names[pid])
            else:
                os.waitpid(pid, 0)

    def _bury(self, name: Hashable, options: int = 0) -> None:
        """Wait for the end of a process, end what it has started itself, and tell the kernel."""
        pid = self._running[name]
        if _CAN_LOOK:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            _send_signal(pid, signal.SIGKILL)
        ended, status, usage = os.wait4(pid, options)
        if not ended:
            return
        del self._running[name]
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        with contextlib.suppress(OSError):
            self._control.send(("ended", name, os.waitstatus_to_exitcode(status), peak))

    def _clear(self) -> None:
        """End all processes, and what they have started. Returns when they are gone."""
        for pid in self._running.values():
            _send_signal(pid, signal.SIGKILL)
        for name in list(self._running):
            self._bury(name)
        while left := _children():  # in a group of their own
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _call(self, module: str, function: str) -> Any:
        return getattr(importlib.import_module(module), function)()

    def _remove_at_end(self, folder: str) -> None:
        self._folders.append(folder)


# ── children ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _ends_of_children() -> Iterator[int]:
    """A file that becomes readable when a child of this process ends. A fork that leaves the block has none of it."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    before = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.siginterrupt(signal.SIGCHLD, False)  # C++ code of what is imported need not know of it
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)
        os.close(reader)
        os.close(writer)


def _an_ended_child() -> int:
    """A child that has ended and still has its number, so that nobody else can; 0 if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return found.si_pid if found else 0


def _send_signal(pid: int, number: int) -> None:
    """To a process that was forked and not waited for; SIGKILL also to all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        (os.killpg if number == signal.SIGKILL else os.kill)(pid, number)


def _children() -> list[int]:
    """The processes whose parent this one is, as far as the system tells."""
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]
    return []


def adopt_orphans() -> None:
    """Linux: what outlives the process that started it becomes a child of this one, which can end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


# ── what else a process needs that is forked from ────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def end_with(control: Channel) -> Iterator[None]:
    """For a block in which this process can't look: when the kernel is gone, it is killed, by a fork that does look.

    If this process is gone, the fork ends as well: while it holds the channel, the kernel would wait for an answer.
    """
    busy = os.getpid()
    guard = os.fork()
    if guard == 0:
        poll = select.poll()
        poll.register(control, 0)  # no event but the end, which is always told
        while os.getppid() == busy and not poll.poll(_GUARD_MILLISECONDS):
            pass
        if os.getppid() == busy:
            os.kill(busy, signal.SIGKILL)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)


def freeze() -> None:
    """All that forks need is imported: from now on a garbage collector, also that of a fork, leaves it alone.

    So the pages with it stay shared.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else each fork would print what imports have
    gc.collect()
    gc.freeze()
    gc.enable()


def die_with_parent(parent: int) -> None:
    """Linux: have the system kill this process when `parent`, which has forked it, ends, even if that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended just before
            os._exit(1)
