"""Which ranks a check may play its cases on: simulated and real ones, or simulated ones alone.

    with simulated_only():
        check_shift(shift, …)      every case in virtual time, in this process; no process is started

Real ranks have the last word otherwise (see `checks`). Without them a check is some times faster, and does not notice
what only real ranks show: values that pass between ranks through memory they share, a process that ends. Nothing
protects this process from the function then. So this is for code that one trusts: `make answers ARGS=--fast`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_simulated_only = ContextVar("_simulated_only", default=False)


@contextmanager
def simulated_only() -> Iterator[None]:
    """Checks that run meanwhile, in this thread, play all their cases on simulated ranks, in this process."""
    before = _simulated_only.set(True)
    try:
        yield
    finally:
        _simulated_only.reset(before)


def real_ranks_allowed() -> bool:
    """Whether a check may start processes for ranks. False inside `simulated_only`."""
    return not _simulated_only.get()
