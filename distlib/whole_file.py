"""Writing a file at once: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import glob
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

_ABANDONED = 3_600.0  # seconds, after which nobody is writing a file any more


def make_private(folder: Path) -> None:
    """Make a folder that other users of the machine can't enter. One that is there stays as it is.

    Whatever writes into the student's `work/` first makes it by this.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write a file at once, and the folders above it where they are missing. Several threads may.

    Raises:
        OSError: it can't be written; what was there is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        with new.open("xb") as stream:
            stream.write(content)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that were killed have left of this file."""
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.new"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _ABANDONED:
                old.unlink()
