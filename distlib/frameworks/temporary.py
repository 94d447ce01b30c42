"""A folder for the temporary files of processes that may be killed: it goes with them, at the latest with the next one.

TensorFlow writes a file for each function that it converts. An exit handler removes it, which a killed process has not.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from distlib.own_folders import open_at_once, own_folders

_PREFIX = "distlib-processes-"
_NEW = 60.0  # seconds in which a folder may be there and not locked yet


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder, for one block. If the kernel is killed in it, the next block of any kernel removes the folder."""
    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_SH)  # the system takes it away with this process, however that ends
        try:
            yield folder
        finally:
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of kernels that were killed."""
    for path in own_folders(Path(tempfile.gettempdir()), _PREFIX):
        with contextlib.suppress(OSError):  # that of a living kernel can't be locked
            if time.time() - path.stat().st_mtime > _NEW:
                _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    lock = open_at_once(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
