"""What all ranks of a submission take together. Of memory there is a limit: their fork server looks, and ends one.

The system's limit (`RLIMIT_AS`) is one for each process, so nine ranks may take nine times as much. A group of the
system's (cgroup) would have one for all, but making one takes rights that an instructor seldom has.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

SECONDS = 0.05  # from one look to the next: the time in which a process fills some 100 MB
_COUNTED = ("RssAnon:", "RssShmem:", "VmSwap:")  # pages of its own; not those of files, such as torch's


class MemoryWatch:
    """Watches over the processes that this one has forked. What they have in common with it does not count.

    Args:
        most: bytes, for all of them together.

    Attributes:
        ended: the processes that it has ended.
    """

    def __init__(self, most: int) -> None:
        self.ended: set[int] = set()
        self._most = most
        self._shared = memory_of(os.getpid())
        self._before: dict[int, int] = {}

    def look(self, processes: Iterable[int]) -> None:
        """End the process that has grown the most since the last look, if all together take too much."""
        taken = {process: memory_of(process) - self._shared for process in processes if process not in self.ended}
        too_large = to_end(taken, self._before, self._most)
        self._before = taken
        if too_large is not None:
            self.ended.add(too_large)
            with contextlib.suppress(ProcessLookupError):
                os.kill(too_large, signal.SIGKILL)


def to_end(taken: Mapping[int, int], before: Mapping[int, int], most: int) -> int | None:
    """The process that must go where all together take more than `most` bytes; None if there is room.

    It is the one that has grown the most: others may be large, but were so while there was room.
    """
    if sum(max(0, size) for size in taken.values()) <= most:
        return None
    return max(taken, key=lambda process: taken[process] - max(0, before.get(process, 0)))


def seconds_of(processes: Iterable[int]) -> float:
    """The seconds of the processor that this process, some of its forks, and those that have ended have taken."""
    here = os.times()
    ended = here.user + here.system + here.children_user + here.children_system
    return ended + sum(_ticks_of(process) for process in processes) / os.sysconf("SC_CLK_TCK")


def _ticks_of(process: int) -> int:
    """Of a process that runs, or that nobody has waited for yet; 0 of any other."""
    try:
        words = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(words[11]) + int(words[12])
    except (OSError, ValueError, IndexError):
        return 0


def memory_of(process: int) -> int:
    """How many bytes a process has for itself, or shares with its forks; 0 if it has ended, or the system can't say."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_COUNTED))
