"""What the messages of an all-reduce by a tree, by halving and doubling, or on a grid look like.

tree               the whole tensor goes up a tree to rank 0, and down a tree to everybody
halving_doubling   pairs of ranks exchange one half, a quarter, …, and back; ranks beyond a power of two hand theirs in
grid               chunks go round the rows, pieces of chunks round the columns

A test cell says how many messages, and how many rounds or steps; `tree_traffic`, `halving_traffic` and `grid_traffic`
compare. Steps are those of `distlib.checks.rules.steps`: a rank handles one message at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from distlib.checks.remark import Remark
from distlib.checks.supplied import helper_origin
from distlib.grading.case import Case
from distlib.grading.specification import is_own
from distlib.grading.traffic import explain_foreign, explain_silence
from distlib.trace import Message, Trace


@dataclass(frozen=True)
class AllReduceSpecification:
    """What the messages of a right answer look like.

    Attributes:
        messages: how many messages each rank sends. Halving and doubling: from the number of ranks to a list by rank.
            Grid: from rows and columns to two numbers, along the row and along the column. Tree: None, for only the
            total is fixed.
        rounds: from the same to the number of rounds; None for a tree.
        steps: from the number of ranks to the largest number of steps up the tree, and down; else None.
        helpers: names of the functions that the check supplies; their messages count.

    Raises:
        ValueError: a helper that does not exist.
    """

    messages: Callable[..., Sequence[int]] | None = None
    rounds: Callable[..., int] | None = None
    steps: Callable[[int], int] | None = None
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.helpers:
            helper_origin(name)

    def counts(self, message: Message) -> bool:
        """Whether a message is the student's own: sent by a line of theirs, or by a helper that the check supplied."""
        return is_own(message, self.helpers)


@dataclass(frozen=True)
class Traffic:
    """The messages of one run, against what they should be."""

    case: Case
    trace: Trace
    specification: AllReduceSpecification

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.case.world_size

    @property
    def is_exact(self) -> bool:
        """Whether the number of messages is fixed: empty chunks may be sent or not."""
        return self.case.length >= self.size

    @cached_property
    def full(self) -> list[Message]:
        """The messages that are not empty, in the order in which they were sent."""
        return [message for message in self.trace if message.nbytes]

    def sent_by(self, rank: int) -> list[Message]:
        """The messages of one rank that are not empty, in order."""
        return [message for message in self.full if message.src == rank]


Question = Callable[[Traffic], Remark | None]


def first_remark(traffic: Traffic, expected: int, questions: Sequence[Question]) -> Remark | None:
    """What is wrong with the senders, or the first remark that one of the questions has; None if all is right.

    Args:
        expected: how many messages there should be in all.
    """
    case, trace = traffic.case, traffic.trace
    foreign = [message for message in trace if not traffic.specification.counts(message)]
    if foreign:
        return explain_foreign(case.function, foreign, len(trace))
    silence = explain_silence(trace, expected if case.length else 0)
    return silence or next((remark for remark in (question(traffic) for question in questions) if remark), None)
