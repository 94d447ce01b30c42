"""A rank that is silent: its process is there and does nothing, not even end. Only a time limit finds it.

    rank      a thread of its own writes the time into a file, four times in `limit` seconds, whatever the rank does
    watch     a file that is older than `limit`: that rank is silent, and is killed

Killed, and not only left behind: else it might wake up later and go on, with messages and checkpoints of a run that has
long moved on. Clusters call this fencing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

_SIGN = struct.Struct("<qd")  # process id; the time, by the clock that all processes of a machine share
_PER_LIMIT = 4  # signs within the limit


class Watch:
    """Kills the ranks of this machine that are silent. A context manager.

    Args:
        limit: seconds; None to watch nobody. A rank that computes for longer inside one call that keeps Python's lock
            counts as silent, too: rather too long than too short.

    Attributes:
        folder: where ranks give signs of life.
        silent: the ranks that were killed.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.silent: list[int] = []
        self._over = threading.Event()
        self._temporary = tempfile.TemporaryDirectory(prefix="distlib-")
        self.folder = Path(self._temporary.name)
        self._thread = threading.Thread(target=self._watch, name="watching for silence", daemon=True)

    def __enter__(self) -> Watch:
        if self.limit is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.limit is not None:
            self._thread.join()
        self._temporary.cleanup()

    def _watch(self) -> None:
        assert self.limit is not None
        every = self.limit / _PER_LIMIT
        looked = time.monotonic()
        while not self._over.wait(every):
            before, looked = looked, time.monotonic()
            if looked - before < self.limit / 2:  # else the watch itself has slept, and the ranks perhaps as well
                self._look(looked)

    def _look(self, now: float) -> None:
        assert self.limit is not None
        for file in sorted(self.folder.iterdir()):
            with contextlib.suppress(OSError, struct.error):  # it ends this moment, or begins
                pid, last = _SIGN.unpack(file.read_bytes())
                rank = int(file.name)
                if now - last > self.limit and rank not in self.silent:
                    self.silent.append(rank)
                    os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def signs_of_life(folder: Path, rank: int, limit: float) -> Iterator[None]:
    """On a rank: in this block, a thread of its own gives signs of life."""
    over = threading.Event()
    thread = threading.Thread(target=_give_signs, args=(folder / str(rank), limit / _PER_LIMIT, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _give_signs(file: Path, every: float, over: threading.Event) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the rank's own thread
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as signs:  # the watch may be over, and its folder
        while True:
            os.pwrite(signs.fileno(), _SIGN.pack(os.getpid(), time.monotonic()), 0)
            if over.wait(every):
                file.unlink()
                return
