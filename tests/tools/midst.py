"""When another process is in the midst of something, or has nothing left to do: seen, not guessed by a nap."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

_LOOK = 0.02  # seconds between two looks
_BUSY = 0.05  # seconds of the processor, after which a process that computes is in the midst of it
_PATIENCE = 100.0


def becomes_so(is_so: Callable[[], bool], patience: float = 60.0) -> bool:
    """Look until something is so. Whether it is, within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not (so := is_so()) and time.monotonic() < deadline:
        time.sleep(_LOOK)
    return so


def wait_until(
    is_so: Callable[[], bool],
    what: str | Callable[[], str],
    patience: float = _PATIENCE,
    *,
    during: subprocess.Popen[Any] | None = None,
    every: float = _LOOK,
) -> None:
    """Look until something is so. AssertionError, with `what` was expected, if it is not within `patience` seconds.

    Args:
        during: a process that must not end before.
        every: seconds between two looks.
    """
    deadline = time.monotonic() + patience
    while not is_so():
        assert during is None or during.poll() is None, f"it has ended: {during.communicate()}"
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(every)


def until_there(
    folder: Path,
    pattern: str,
    count: int = 1,
    patience: float = _PATIENCE,
    *,
    during: subprocess.Popen[Any] | None = None,
) -> None:
    """Wait until a folder has so many files of a name with wildcards."""
    what = f"{count} {pattern} in {folder}"
    wait_until(lambda: len(list(folder.glob(pattern))) >= count, what, patience, during=during)


def until_in_the_midst(pids: Iterable[int]) -> None:
    """Wait until each process, which has begun with something, computes for a while or waits for somebody else."""
    for process in map(psutil.Process, pids):
        _until_in_the_midst(process, _used(process))


def _until_in_the_midst(process: psutil.Process, before: float) -> None:
    wait_until(lambda: _has_come_to_rest(process) or _used(process) > before + _BUSY, f"{process} goes on")


def until_at_rest(pid: int) -> None:
    """Wait until a process has done all that there was to do, and waits."""
    process = psutil.Process(pid)
    wait_until(lambda: _has_come_to_rest(process), f"process {pid} waits")


def until_gone(pid: int) -> None:
    """Wait until a process that was killed has ended, and with it all that it held open."""
    wait_until(lambda: _has_ended(pid), f"process {pid} ends")


def _has_ended(pid: int) -> bool:
    """Whether its last thread has: what it held open is closed then, also if nobody has asked yet how it ended."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def _used(process: psutil.Process) -> float:
    return sum(process.cpu_times()[:2])


def _has_come_to_rest(process: psutil.Process) -> bool:
    """Whether it waits now, and has done nothing else since a moment ago. A process that waits for a core does not."""
    before = process.num_ctx_switches()
    time.sleep(_LOOK)
    return process.status() == psutil.STATUS_SLEEPING and process.num_ctx_switches() == before
