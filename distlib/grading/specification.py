"""What the messages of a right answer look like. A test cell says it, `traffic` compares.

ring   every rank sends to one other rank, and these form one circle        carries one chunk a message
star   every message goes to rank 0 or comes from it                        carries the whole buffer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distlib.checks.supplied import helper_origin, helper_origins
from distlib.trace import Message

TOPOLOGIES = ("ring", "star")
CARRIES = ("chunk", "buffer")
EXECUTED_TEXT = "<string>"  # the file name of code that exec has made


@dataclass(frozen=True)
class Specification:
    """What the messages of a right answer look like.

    Attributes:
        messages: from the number of ranks to how many messages each rank sends: a number, or a list by rank.
        rounds: from the number of ranks to the number of rounds (see `distlib.trace`).
        carries: what each message carries: one "chunk", or the whole "buffer".
        topology: who talks to whom: "ring", either way round, or "star" with rank 0 in the middle.
        helpers: names of the functions that the check supplies; their messages count.

    Raises:
        ValueError: `carries`, `topology` or a helper that does not exist.
    """

    messages: Callable[[int], int | Sequence[int]]
    rounds: Callable[[int], int]
    carries: str
    topology: str
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect_one_of("carries", self.carries, CARRIES)
        expect_one_of("topology", self.topology, TOPOLOGIES)
        for name in self.helpers:
            helper_origin(name)

    def messages_by_rank(self, world_size: int) -> list[int]:
        """How many messages each rank should send."""
        expected = self.messages(world_size)
        return [expected] * world_size if isinstance(expected, int) else list(expected)

    def counts(self, message: Message) -> bool:
        """Whether a message is the student's own: sent by a line of theirs, or by a helper that the check supplied."""
        return is_own(message, self.helpers)


def is_own(message: Message, helpers: Sequence[str] = ()) -> bool:
    """Whether a line of the student's sent the message, or one of these helpers that the check has supplied."""
    origins = {None, *(origin for name in helpers for origin in helper_origins(name))}
    return message.site.via in origins and message.site.file != EXECUTED_TEXT


def expect_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ValueError if a test cell asks for something that does not exist."""
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")
