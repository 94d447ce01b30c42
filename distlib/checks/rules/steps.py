"""How many steps the messages of a tree take, if in one step a rank handles one message at most.

Rounds count only what had to wait for a message: a root that sends to 1,000 ranks does it in one round. Steps also
count that a rank handles one message at a time:

    broadcast   a message leaves in the step after its sender got the buffer, or after the sender's message before it
    reduce      a rank takes one message a step, the earliest first, and sends one step after its last
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from distlib.trace import Trace


def broadcast_steps(trace: Trace) -> int:
    """The number of steps until every rank has the buffer, each rank sending in the order in which it did.

    Of what a rank has sent at the same moment, with isend, the message with the longest way still to go counts as the
    first.
    """
    below = _steps_below(trace)
    busy = [0] * trace.world_size  # the last step in which a rank took part
    for message in sorted(trace, key=lambda message: (message.round, message.start, -below[message.dst])):
        busy[message.src] += 1
        busy[message.dst] = max(busy[message.dst], busy[message.src])
    return max(busy)


def _steps_below(trace: Trace) -> list[int]:
    """By rank: in how many steps what it has can come to all ranks that got it from this one."""
    below = [0] * trace.world_size
    ways: dict[int, list[int]] = defaultdict(list)
    for message in sorted(trace, key=lambda message: -message.round):  # what a rank passes on has a higher round
        ways[message.src].append(below[message.dst])
        below[message.src] = max(step + way for step, way in enumerate(sorted(ways[message.src], reverse=True), 1))
    return below


def reduce_steps(trace: Trace) -> int:
    """The number of steps until the root has everything, if each rank takes first what is there first."""
    ready: dict[int, list[int]] = defaultdict(list)  # by rank: the steps after which its senders could send
    for message in sorted(trace, key=lambda message: (message.round, message.start)):
        ready[message.dst].append(_all_taken(ready[message.src]))
    return max((_all_taken(steps) for steps in ready.values()), default=0)


def _all_taken(ready: Sequence[int]) -> int:
    step = 0
    for earliest in sorted(ready):
        step = max(step, earliest) + 1
    return step
