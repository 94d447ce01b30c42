"""Limits of this process, for one that was started to do something of which nobody knows what it takes."""

from __future__ import annotations

import math
import resource
import sys
from pathlib import Path


def limit_to(what: int, most: int) -> None:
    """Let this process take at most so much, and less where the system's hard limit, which stays, is lower.

    Args:
        what: such as resource.RLIMIT_CPU.
        most: in the unit of that.
    """
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def limit_memory(more: int) -> None:
    """Let this process take so much more memory and no more; files that are mapped don't count. On Linux alone.

    more: bytes, beyond what it has already.
    """
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        limit_to(resource.RLIMIT_DATA, pages * resource.getpagesize() + more)


def allow_processor_seconds(more: float) -> None:
    """From now on, let this process take so much more time of the processor; then the system ends it (SIGXCPU)."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit_to(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime + more))
