"""How much longer than on a free machine a student's function may take.

Time limits end what would never end. They are many times what a right function needs on a machine that has nothing else
to do. Where more processes want to run than there are cores, everything takes longer, through no fault of the student;
so limits grow with that.
"""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 8


def patience() -> int:
    """By how much to multiply a time limit: 1 where up to two want each core, 2 from four on, and so on; at most 8."""
    last_minute, _, _ = os.getloadavg()  # the processes that ran or wanted to
    waiting = max(last_minute, _running_now())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST, int(waiting / cores / 2)))


def _running_now() -> int:
    """How many processes run, or want to, at this moment: the mean over a minute is late. 0 where nobody knows."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


def seconds_for(case: float, check: float, spent: float) -> float:
    """How long the next case of a check may take now.

    Args:
        case, check: limits for one case and for all of a check, on a free machine.
        spent: seconds that the check has taken so far.
    """
    return max(0.1, min(patience() * case, patience() * check - spent))
