"""Folders that this user has made in a place that all users share, such as /tmp, where others may make any name."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def own_folders(place: Path, prefix: str) -> Iterator[Path]:
    """The folders in `place` that belong to this user, and whose names begin so. Those of others are not opened."""
    for path in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # it goes this moment
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                yield path


def open_at_once(path: Path) -> int:
    """A file descriptor to read a file or folder. Follows no link, and does not wait for who writes into a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
