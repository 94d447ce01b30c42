"""How much longer than on a free machine a student's function may take.

Time limits end what would never end. They are many times what a right function needs on a machine that has nothing else
to do. Where others keep the machine busy, everything takes longer, through no fault of the student; so limits grow with
that. What a submission itself keeps busy does not count: else it could lengthen its own limits, and hold up a class.

    one core           1 s of a core in each second is what a rank needs: one computes at a time
    ────────           what was idle could have been had, what the submission took it has had; the rest went to others
    idle + own         both in cores, over the last seconds

Where nobody knows what is the submission's own, the number of processes that want to run counts.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST = 8.0
_SECONDS = 1.0  # at least, from one look to the next
_LOOKS = 10  # the busiest of these counts: a moment's rest of the others changes nothing


class Others:
    """How busy others than one submission keep the machine.

    Args:
        own: seconds of the processor that the submission has taken so far, on all cores together.
        idle: the same of all cores that nobody took; None if the system does not tell.
    """

    def __init__(self, own: Callable[[], float], idle: Callable[[], float | None] | None = None) -> None:
        self._own, self._idle = own, idle or idle_seconds
        self._factors = deque([by_processes()], maxlen=_LOOKS)  # nothing of the submission runs yet
        self._when, self._last_idle, self._last_own = time.monotonic(), self._idle(), 0.0
        self._fair = 0.0

    def factor(self) -> float:
        """By how much to multiply a time limit now: from 1 to 8."""
        elapsed = time.monotonic() - self._when
        if elapsed >= _SECONDS:
            self._look(elapsed)
        return max(self._factors)

    def fair_seconds(self) -> float:
        """The time that has passed so far, as on a free machine: an hour in which all takes twice as long is half."""
        self.factor()
        return self._fair + (time.monotonic() - self._when) / self._factors[-1]

    def _look(self, elapsed: float) -> None:
        idle, own = self._idle(), self._own()
        if idle is None or self._last_idle is None:
            now = by_processes()
        else:
            left = (idle - self._last_idle + own - self._last_own) / elapsed
            now = max(1.0, min(_MOST, 1 / max(left, 1 / _MOST)))
        self._factors.append(now)
        self._fair += elapsed / now
        self._when, self._last_idle, self._last_own = self._when + elapsed, idle, own


_others: list[Others] = []  # of the submission that is judged in this process, if there is one


@contextmanager
def without_own(own: Callable[[], float]) -> Iterator[None]:
    """For one block, let limits grow only with what others than a submission keep busy. `own`: as of `Others`."""
    _others.append(Others(own))
    try:
        yield
    finally:
        _others.pop()


def patience() -> float:
    """By how much to multiply a time limit: 1 on a machine that is not busy, at most 8."""
    return _others[-1].factor() if _others else by_processes()


def fair_seconds() -> float:
    """A clock that goes slower while others keep the machine busy; only differences mean something."""
    return _others[-1].fair_seconds() if _others else time.monotonic()


def by_processes() -> float:
    """1 where up to two processes want each core, 2 from four on, and so on; at most 8."""
    last_minute, _, _ = os.getloadavg()  # the processes that ran or wanted to
    waiting = max(last_minute, _running_now())
    return max(1.0, min(_MOST, float(int(waiting / len(_cores()) / 2))))


def idle_seconds() -> float | None:
    """How long the cores that this process may use have been idle, all together; None if the system does not tell."""
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        ticks = {words[0]: int(words[4]) + int(words[5]) for words in lines if words[0].startswith("cpu")}
        return sum(ticks[f"cpu{core}"] for core in _cores()) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, LookupError):
        return None


def seconds_for(case: float, check: float, spent: float) -> float:
    """How long the next case of a check may take now.

    Args:
        case, check: limits for one case and for all of a check, on a free machine.
        spent: seconds that the check has taken so far.
    """
    return max(0.1, min(patience() * case, patience() * check - spent))


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _running_now() -> int:
    """How many processes run, or want to, at this moment: the mean over a minute is late. 0 where nobody knows."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0
