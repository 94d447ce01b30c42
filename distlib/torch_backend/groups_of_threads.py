"""Several simulated ranks in one process: while one of them is inside, each thread has process groups of its own.

torch keeps its process groups in variables of the process. Its own tests of several ranks in one process give each
thread a set of them in the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from distlib.torch_backend.streams import is_rank
from distlib.worlds.private_torch import (
    CollectivesOnMeta,
    ProcessGroupsOfThread,
    ShapesInferredOnce,
    swap_process_groups,
)

_inside = 0
_before: object = None
_taught: tuple[CollectivesOnMeta | ShapesInferredOnce, ...] = ()


@contextlib.contextmanager
def groups_of_this_thread() -> Iterator[None]:
    """In this block the thread has process groups of its own: at first none. One simulated rank runs at a time."""
    global _inside, _before, _taught
    if _inside == 0:
        _before = swap_process_groups(ProcessGroupsOfThread())
        _taught = CollectivesOnMeta(is_rank), ShapesInferredOnce()
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if _inside == 0:
            swap_process_groups(_before)
            for each in _taught:
                each.end()
