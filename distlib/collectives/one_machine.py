"""Which all-reduce is fastest between processes that share one machine: a rule of thumb, from measurements.

The closed forms of `network` count what the busiest link carries, and here there is none: all ranks share one memory
and a few cores. With every algorithm 2(N−1)·S bytes are copied in all. What differs is the number of messages, each of
which costs some 0.1 to 0.3 ms of Python and of waiting for a core:

    naive    2(N−1) messages, and rank 0 does the adding: few messages, one core
    tree     2(N−1) messages, ⌈log₂ N⌉ ranks after one another in each direction
    ring     2N(N−1) messages, each a chunk of S/N: all cores copy and add

So few messages are best until copying and adding take longer than the many messages of a ring. The limits were chosen
from medians on a machine of 2 cores, with worlds of 2, 4 and 8 ranks; `make bench ARGS="auto"` shows how far the choice
is from the best on another machine.
"""

from __future__ import annotations

_RING_FROM = 1 << 20  # bytes of a chunk
_NAIVE_UP_TO = 8  # ranks, while adding takes next to no time
_ADDING_COUNTS_FROM = 1 << 22  # bytes that rank 0 would have to add up


def choose_on_one_machine(world_size: int, nbytes: int) -> str:
    """The all-reduce for `nbytes` bytes on `world_size` ranks of one machine: "naive", "tree" or "ring"."""
    if nbytes >= _RING_FROM * world_size:
        return "ring"
    little_to_add = world_size * nbytes <= _ADDING_COUNTS_FROM
    return "naive" if world_size <= _NAIVE_UP_TO and little_to_add else "tree"
