"""What a machine lacks when ranks can't start: open files, processes, or rights to one's own new files.

The system says only "[Errno 24] Too many open files". Here is which limit that is, and how to have more of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
from collections.abc import Iterator

_FILES = (errno.EMFILE, errno.ENFILE)
_NO_PROCESS = re.compile(r"Resource temporarily unavailable|can't start new thread|fork: retry")
_NO_FILE = re.compile(r"Too many open files")


@contextlib.contextmanager
def said_of_limits(ranks: int) -> Iterator[None]:
    """In this block an error about open files or processes becomes one that says how to have more of them."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if sentence := _sentence(error, ranks):
            raise OSError(sentence) from None
        raise


def _sentence(error: OSError | RuntimeError, ranks: int) -> str:
    """What to do about an error; "" for one that is about something else."""
    number, text = getattr(error, "errno", None), str(error)
    if number in _FILES or _NO_FILE.search(text):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = "" if hard == resource.RLIM_INFINITY else f"; this user may have {hard:,}"
        return (
            f"{ranks} ranks need more open files than the {soft:,} that this process may have{most}. Before you start "
            f"Jupyter or Python: ulimit -n 1024. Or take fewer ranks."
        )
    if number == errno.EAGAIN or _NO_PROCESS.search(text):
        soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
        limit = "" if soft == resource.RLIM_INFINITY else f" of {soft:,}"
        return (
            f"{ranks} ranks need more processes or threads than this user may have now: the limit{limit} "
            "(ulimit -u), or that of the container, is reached. End other programs of yours, take fewer ranks, or ask "
            "who runs this machine."
        )
    return ""


def check_umask() -> None:
    """Check that this process may use the files that it makes. Raises OSError if its umask forbids that."""
    mask = os.umask(0o077)
    os.umask(mask)
    if mask & 0o700:
        raise OSError(
            f"the umask is {mask:04o}, which takes from this process the right to use its own new files, and ranks "
            "need some. Before you start Jupyter or Python: umask 077"
        )
