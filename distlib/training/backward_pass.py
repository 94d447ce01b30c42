"""Which backward pass is this? Whoever works on gradients as they come begins with the first one of a pass.

    pass        3 ──► fails                  4 ────────────── 5 ────────────── 4 ──►
    gradient    c     what is left of it     c                b                a
                      is dropped here ───────┘                └ of a pass inside pass 4: what was begun goes on

torch gives each pass a number. A pass that runs inside another one, as those of reentrant checkpointing do, has a
number of its own, and so has the pass after one that has failed. What tells them apart is the function that is to be
called at the end: torch keeps it for as long as the pass lives.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from distlib.worlds.private_torch import at_end_of_backward


class BackwardPass:
    """Notes the backward pass that runs. What runs inside it counts as a part of it.

    Args:
        at_end: called at the end of each pass that has begun, unless it fails.
    """

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        self._running: Callable[[], object] = _nothing

    def begins(self) -> bool:
        """Whether this is the first call in a pass, which has `at_end` called. To be called inside of it."""
        if self._running() is not None:
            return False
        end = self._end
        self._running = weakref.ref(end)  # torch has the only other reference
        at_end_of_backward(end)
        return True

    def _end(self) -> None:
        self._running = _nothing
        self._at_end()


def _nothing() -> None:
    """There is no pass."""
