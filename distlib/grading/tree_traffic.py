"""Are the messages those of an all-reduce by a tree: up to rank 0, and down again?

    up      every rank but 0 sends its sum once, after it has received from all ranks below it
    down    every rank but 0 receives the result once, and then passes it on

The first message that a rank other than 0 sends is its way up; all others go down. Any two trees are right in which
each direction takes no more than the allowed number of steps. Empty messages may be sent or not.

What can't be seen: see `distlib.grading.traffic`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.grading.all_reduce_specification import AllReduceSpecification, Traffic, first_remark
from distlib.grading.case import Case, count, dtype_name
from distlib.grading.traffic import describe
from distlib.trace import Message, Trace


def explain_tree_traffic(case: Case, trace: Trace, specification: AllReduceSpecification) -> Remark | None:
    """The remark about the first thing that is not as specified; None if all is.

    Args:
        trace: all messages of the run, also those that don't count.
    """
    traffic = Traffic(case, trace, specification)
    return first_remark(traffic, _total(traffic), (_sizes, _number, _root, _one_result_each, _up, _down))


def _total(traffic: Traffic) -> int:
    return 2 * (traffic.size - 1) if traffic.case.length else 0


def _sizes(traffic: Traffic) -> Remark | None:
    wrong = [message for message in traffic.full if message.nbytes != traffic.case.nbytes]
    if not wrong:
        return None
    if wrong[0].dtype != dtype_name(traffic.case.dtype):
        cause = (
            f"the message's dtype differs from the tensor's. Send it unchanged, as {dtype_name(traffic.case.dtype)}."
        )
    else:
        cause = (
            "the tensor is cut into chunks: that is a ring, or halving and doubling. In a tree the whole tensor "
            "travels in every message."
        )
    return Remark(
        f"the values are right, but a message carries {math.prod(wrong[0].shape)} {wrong[0].dtype}; each should carry "
        f"the whole tensor of {traffic.case.size}.",
        (describe(wrong[0]),),
        cause,
    )


def _number(traffic: Traffic) -> Remark | None:
    found, expected = len(traffic.full), _total(traffic)
    if found == expected:
        return None
    return Remark(
        f"the values are right, but there were {count(found, 'message')}; {expected} were expected: one up and one "
        "down for every rank but rank 0.",
        (f"messages sent by each rank: {', '.join(map(str, traffic.trace.messages_sent))}",),
        _cause_of_number(traffic),
    )


def _cause_of_number(traffic: Traffic) -> str:
    pairs = Counter((message.src, message.dst) for message in traffic.full)
    (src, dst), times = pairs.most_common(1)[0]
    if times > 1:
        return f"rank {src} sends to rank {dst} more than once. On the way down a rank receives the sum once."
    if len(pairs) == traffic.size * (traffic.size - 1):
        return "every rank sends to every other rank, and all of them add up. In a tree only rank 0 gets the whole sum."
    if len(set(traffic.trace.messages_sent)) == 1:
        return (
            "in every step each rank exchanges its whole tensor with a partner, and all of them add up. That is "
            "another algorithm. In a tree only rank 0 gets the whole sum, and the others are sent it."
        )
    return "a rank sends its sum up once, and receives the result once."


# ── up to rank 0 ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _root(traffic: Traffic) -> Remark | None:
    if _sends_last(traffic, 0):
        return None
    early = traffic.sent_by(0)[0]
    return Remark(
        f"the values are right, but rank 0 sent to rank {early.dst} before it had received everything. It should "
        "first have the whole sum.",
        (describe(early), _routes(traffic.full)),
        _cause_of_root(traffic),
    )


def _sends_last(traffic: Traffic, rank: int) -> bool:
    """Whether a rank sends only after everything that it receives."""
    received = [message.round for message in traffic.full if message.dst == rank]
    return all(message.round > max(received, default=0) for message in traffic.sent_by(rank))


def _cause_of_root(traffic: Traffic) -> str:
    roots = [rank for rank in range(traffic.size) if _sends_last(traffic, rank)]
    if len(roots) == 1:
        return f"rank {roots[0]} is at the top of your tree. In this exercise it is rank 0."
    return (
        "the two ranks of a pair exchange, and both add up. In a tree the upper rank receives and adds; the lower one "
        "gets the sum on the way down."
    )


def _ways(traffic: Traffic) -> tuple[list[Message], list[Message]]:
    """The messages up, and those down."""
    up = [traffic.sent_by(rank)[0] for rank in range(1, traffic.size) if traffic.sent_by(rank)]
    return up, [message for message in traffic.full if message not in up]


def _one_result_each(traffic: Traffic) -> Remark | None:
    _, down = _ways(traffic)
    received = Counter(message.dst for message in down)
    wrong = [rank for rank in range(1, traffic.size) if received[rank] != 1] if down else []
    if not wrong:
        return None
    return Remark(
        f"the values are right, but rank {wrong[0]} receives {count(received[wrong[0]], 'message')} after the sum is "
        "complete; 1 was expected.",
        (_routes(traffic.full),),
        "the messages do not form a tree up to rank 0 and down again. Up, a rank sends once. Down, it receives once.",
    )


def _up(traffic: Traffic) -> Remark | None:
    up, _ = _ways(traffic)
    return _too_many_steps(traffic, up, reduce_steps(Trace(traffic.size, up)), "up to rank 0")


# ── down from rank 0 ─────────────────────────────────────────────────────────────────────────────────────────────────


def _down(traffic: Traffic) -> Remark | None:
    _, down = _ways(traffic)
    return _too_many_steps(traffic, down, broadcast_steps(Trace(traffic.size, down)), "down from rank 0")


def _too_many_steps(traffic: Traffic, messages: Sequence[Message], found: int, way: str) -> Remark | None:
    assert traffic.specification.steps is not None
    limit = traffic.specification.steps(traffic.size)
    if found <= limit:
        return None
    return Remark(
        f"the values are right, but the way {way} takes {count(found, 'step')}; at most {limit} "
        f"{'is' if limit == 1 else 'are'} allowed. (In one step a rank handles one message at most.)",
        (_routes(messages),),
        _cause_of_steps(traffic, messages, way),
    )


def _cause_of_steps(traffic: Traffic, messages: Sequence[Message], way: str) -> str:
    upward = way.startswith("up")
    if all(0 in (message.src, message.dst) for message in messages):
        told = "takes in every tensor" if upward else "sends to everybody"
        return (
            f"rank 0 {told} itself, one after the other: that is the master of naive_all_reduce. "
            f"{'Let others add up pairs first.' if upward else 'Let those who have the sum help.'}"
        )
    chain = max(Counter(message.dst if upward else message.src for message in messages).values()) == 1
    if chain:
        return "the tensor goes from rank to rank in a chain. In each step, let everybody work who can."
    if upward:
        return (
            "a tree, but not everybody who can send does so at once. In each step half of the ranks that still take "
            "part hand in their sum."
        )
    return (
        "a tree, but some rank waits where it could send, or sends first to the rank that has least to pass on. In "
        "each step every rank that has the sum should send it to one that does not."
    )


def _routes(messages: Sequence[Message]) -> str:
    ordered = sorted(messages, key=lambda message: (message.round, message.start))
    return "messages: " + ", ".join(f"{message.src} → {message.dst}" for message in ordered)
