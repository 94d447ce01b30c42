"""Reading a file that somebody else may have put there. Only an ordinary one is read: nobody waits for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_ordinary(path: Path, most: int = 1 << 30) -> bytes:
    """The bytes of an ordinary file, and of a long one the first `most`. Links to one are followed.

    Raises:
        OSError: it can't be read, or is a folder, a pipe or a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
        return file.read(most)
