"""What the messages of a right shift, broadcast, scatter, gather or reduce look like, and how many steps a tree takes.

ring   every rank sends to the next one
star   every message leaves the root, or every message arrives there
tree   the root at the top; each other rank has one message with the rank above it, world_size - 1 in all

Rounds count only what had to wait for a message: a root that sends to 1,000 ranks does it in one round. Steps also
count that a rank handles one message at a time:

    broadcast   a message leaves in the step after its sender got the buffer, or after the sender's message before it
    reduce      a rank takes one message a step, the earliest first, and sends one step after its last
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distlib.grading.specification import CARRIES, expect_one_of, is_own
from distlib.trace import Message, Trace

TOPOLOGIES = ("ring", "star", "tree")


@dataclass(frozen=True)
class PatternSpecification:
    """What the messages of a right answer look like.

    Attributes:
        topology: who talks to whom: "ring", "star" or "tree".
        messages: from the number of ranks to how many messages each rank sends if the root is rank 0, a list; with
            another root everybody's place moves along. None: only their total is fixed, world_size - 1.
        rounds: from the number of ranks to the number of rounds; None if only `steps` count.
        steps: from the number of ranks to the largest number of steps; None if only `rounds` count.
        carries: what each message carries: one "chunk", or the whole "buffer".

    Raises:
        ValueError: a topology, or something to carry, that does not exist.
    """

    topology: str
    messages: Callable[[int], Sequence[int]] | None = None
    rounds: Callable[[int], int] | None = None
    steps: Callable[[int], int] | None = None
    carries: str = "buffer"
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect_one_of("topology", self.topology, TOPOLOGIES)
        expect_one_of("carries", self.carries, CARRIES)

    def messages_by_rank(self, world_size: int, root: int) -> list[int] | None:
        """How many messages each rank should send, or None if that is left open."""
        if self.messages is None:
            return None
        from_root = list(self.messages(world_size))
        return [from_root[(rank - root) % world_size] for rank in range(world_size)]

    def counts(self, message: Message) -> bool:
        """Whether a line of the student's own sent the message."""
        return is_own(message)


def broadcast_steps(trace: Trace) -> int:
    """The number of steps until every rank has the buffer, each rank sending in the order in which it did.

    Of what a rank has sent at the same moment, with isend, that with the longest way still to go counts as the first.
    """
    below = _steps_below(trace)
    busy = [0] * trace.world_size  # the last step in which a rank took part
    for message in sorted(trace, key=lambda message: (message.round, message.start, -below[message.dst])):
        busy[message.src] += 1
        busy[message.dst] = max(busy[message.dst], busy[message.src])
    return max(busy)


def _steps_below(trace: Trace) -> list[int]:
    """By rank: in how many steps what it has can come to all ranks that got it through this one."""
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
