"""Less than a processor for some processes and all that they start: a control group of Linux's, of its version 1 or 2.

Version 1 where it has a folder for processors, else version 2. Needs root. What is in the group gets its part on a busy
machine, too, as far as there is so much.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
_PERIOD = 100_000  # microseconds


def missing() -> str | None:
    """Why this can't be had here; None if it can."""
    try:
        with CpuLimit("distlib-try", 0.5):
            return None
    except OSError as error:
        return f"needs control groups for processors: {error}"


class CpuLimit:
    """A part of a processor. A context manager; at its end nothing may run in it any more.

    Args:
        name: of the group; nobody else's.
        cores: how much, such as 0.4 of one processor.
    """

    def __init__(self, name: str, cores: float) -> None:
        self._is_first = (_V1 / "cpu.cfs_quota_us").exists() or (_V1 / "cpu.shares").exists()
        self._group = (_V1 if self._is_first else _V2) / name
        self._quota = int(cores * _PERIOD)

    def __enter__(self) -> CpuLimit:
        self._group.mkdir()
        try:
            for name, value in self._settings().items():
                (self._group / name).write_text(value)
        except OSError:
            self._group.rmdir()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        give_up = time.monotonic() + 30
        while (self._group / "cgroup.procs").read_text().split() and time.monotonic() < give_up:
            time.sleep(0.05)  # until those that were killed are gone
        self._group.rmdir()

    def inside(self, command: Sequence[str]) -> list[str]:
        """The command that runs a command in the group."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._group / "cgroup.procs"), *command]

    def was_full(self) -> float:
        """In which share of the time that was used all of it was used, from 0 to 1."""
        lines = (self._group / "cpu.stat").read_text().splitlines()
        numbers = {name: int(number) for name, number in (line.split() for line in lines)}
        return numbers["nr_throttled"] / max(1, numbers["nr_periods"])

    def _settings(self) -> dict[str, str]:
        if self._is_first:
            return {
                "cpu.cfs_period_us": str(_PERIOD),
                "cpu.cfs_quota_us": str(self._quota),
                "cpu.shares": str(16 * 1024),
            }
        with contextlib.suppress(OSError):
            (_V2 / "cgroup.subtree_control").write_text("+cpu")
        return {"cpu.max": f"{self._quota} {_PERIOD}", "cpu.weight": str(16 * 100)}
