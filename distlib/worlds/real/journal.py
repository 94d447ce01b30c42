"""What a rank notes of its messages in a file, so that a rank that was killed leaves its part of the trace behind.

Only a world that survives deaths has journals: a note costs a few microseconds. Other ranks report at the end of a run.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from typing import Any

Rows = list[tuple[Any, ...]]


class Journal:
    """The journal of one rank in one run. What an earlier run has left is thrown away.

    Args:
        directory: the world's private directory.
        rank: whose it is.
    """

    def __init__(self, directory: str, rank: int) -> None:
        self._file = open(_path(directory, rank), "wb", buffering=0)  # with a buffer, its end would die with the rank

    def note(self, kind: str, row: Any) -> None:
        """Note a row of the trace (see endpoint). `kind`: "sent" or "received"."""
        self._file.write(pickle.dumps((kind, tuple(row))))

    def close(self) -> None:
        """Let go of the file; it stays until the next run."""
        self._file.close()


def read_journal(directory: str, rank: int) -> tuple[Rows, Rows]:
    """What a rank has noted in its last run: what it sent, and what it received."""
    rows: dict[str, Rows] = {"sent": [], "received": []}
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError), open(_path(directory, rank), "rb") as file:
        while True:  # until its end, or a note that death has cut off
            kind, row = pickle.load(file)
            rows[kind].append(row)
    return rows["sent"], rows["received"]


def _path(directory: str, rank: int) -> str:
    return os.path.join(directory, f"journal-{rank}")
