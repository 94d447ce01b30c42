"""Writing a file at once: a reader sees the old file or the new one, never half of it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


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
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        with new.open("xb") as stream:
            stream.write(content)
        os.replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
