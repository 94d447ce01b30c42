"""How far a class is graded: one line that changes on a terminal, a line per student elsewhere, with the time left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from distlib.classroom.grader.student_record import Record
from distlib.cli.saying import say
from distlib.printable import printable

_WIDTH = 24  # of the bar


class Progress:
    """Tells how far it is, and how long it may still take. Use as a context manager.

    Args:
        stream: where to.
        clock: seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._start, self._done = clock(), 0
        self._is_terminal = stream.isatty()

    def __enter__(self) -> Progress:
        if self._is_terminal:
            self._write("Grading …")
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._write("")

    def tell(self, record: Record, total: int) -> None:
        """Note that a student is done, of `total` in this run."""
        self._done += 1
        spent = self._clock() - self._start
        left = time_left(spent / self._done * (total - self._done)) if self._done < total else "done"
        student = f"{printable(record.student)}: {record.state}"
        if self._is_terminal:
            full = _WIDTH * self._done // total
            bar = "█" * full + "·" * (_WIDTH - full)
            self._write(f"{bar} {self._done} of {total}, {left}   {student}")
        else:
            say(f"{self._done} of {total}, {left}: {student} in {record.took:.0f} s", self._stream)

    def _write(self, text: str) -> None:
        """Put a line in the place of the one before."""
        room = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:room]}")
        self._stream.flush()


def time_left(seconds: float) -> str:
    """ "about 40 s left", "about 3 min left", "about 2 h left": never more exact than it is."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    return f"about {round(seconds / 60)} min left" if seconds < 5_400 else f"about {round(seconds / 3_600)} h left"
