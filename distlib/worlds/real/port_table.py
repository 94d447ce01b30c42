"""When the ports of a paced network are taken: one small table that all ranks of a world share.

A port carries one message at a time. Each rank has one for what goes out and one for what comes in:

    out-port of rank 0   ▒▒▒ to 1 ▒▒▒▒▒▒ to 2 ▒▒▒
    in-port of rank 1    ▒▒▒ from 0 ▒▒▒           ▒▒ from 3 ▒▒
                         ├─ start ─────┤ end                        seconds since the run began

A rank takes a lock before it books, since two ranks may book the same port at the same moment. It is a lock on a file:
the system releases it when a process is killed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_KEPT = 16  # bookings of a port; older ones are over, or lie before all later ones
_FIELDS = 3  # of a booking: ready, start, end
_STRIDE = 2 + _FIELDS * _KEPT  # numbers of a port: the run, how often it was booked in it, the bookings


class PortTable:
    """The bookings of all ports of one world.

    Args:
        path: a file in the world's private directory.
        ports: how many ports there are.
        create: make the file (the notebook's process) or open it (a rank).
    """

    def __init__(self, path: str, ports: int, create: bool = False) -> None:
        size = 8 * _STRIDE * ports
        self._file = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
        if create:
            os.write(self._file, bytes(size))
        self._numbers = memoryview(mmap.mmap(self._file, size)).cast("d")

    def book(self, run: int, ports: Sequence[int], ready: float, busy: float) -> float:
        """Take all `ports` for `busy` seconds, at the same time and as early as possible. Returns when that begins.

        Messages pass in the order in which they were ready. What was booked before with a later `ready` stays where it
        is; this one goes before it if there is room.

        Args:
            run: the number of the run; bookings of other runs don't count.
            ready: not before this time.
        """
        with self._locked():
            booked = [b for port in ports for b in self._bookings(run, port) if b[2] > ready]
            start = _first_gap(booked, ready, busy)
            for port in ports:
                self._add(port, ready, start, start + busy)
            return start

    def close(self) -> None:
        """Let go of the file. What is mapped stays until nobody uses it."""
        os.close(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _bookings(self, run: int, port: int) -> list[tuple[float, float, float]]:
        """(ready, start, end) of each; none if the port was last booked in another run."""
        first = port * _STRIDE
        if self._numbers[first] != run:
            self._numbers[first], self._numbers[first + 1] = run, 0
            return []
        count = min(int(self._numbers[first + 1]), _KEPT)
        numbers = iter(self._numbers[first + 2 : first + 2 + _FIELDS * count].tolist())
        return list(zip(numbers, numbers, numbers, strict=True))

    def _add(self, port: int, ready: float, start: float, end: float) -> None:
        count = int(self._numbers[port * _STRIDE + 1])
        index = port * _STRIDE + 2 + _FIELDS * (count % _KEPT)
        self._numbers[index], self._numbers[index + 1], self._numbers[index + 2] = ready, start, end
        self._numbers[port * _STRIDE + 1] = count + 1


def _first_gap(booked: list[tuple[float, float, float]], ready: float, busy: float) -> float:
    """The first time at which `busy` seconds are free, after all that was ready before."""
    start = max([ready, *(end for earlier, _, end in booked if earlier <= ready)])
    for _, other_start, other_end in sorted(booked, key=lambda booking: booking[1]):
        if other_start < start + busy and start < other_end:
            start = other_end
    return start
