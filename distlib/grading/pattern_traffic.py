"""Are the messages those of the shift, broadcast, scatter, gather or reduce that was asked for?

Compared are, in this order: who sent, to whom, how much in each message, how many messages, in how many rounds, and in
how many steps (see `pattern_specification`). Empty messages may be sent or not.

What can't be seen: see `distlib.grading.traffic`.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from distlib.checks.remark import Remark
from distlib.grading.case import Case, count, dtype_name
from distlib.grading.pattern_specification import PatternSpecification, broadcast_steps, reduce_steps
from distlib.grading.traffic import describe, explain_foreign, explain_silence
from distlib.trace import Message, Trace

_OUTWARD = ("broadcast", "scatter")  # collectives whose messages leave the root


@dataclass(frozen=True)
class _Traffic:
    """The messages of one run against what they should be."""

    case: Case
    trace: Trace
    specification: PatternSpecification

    @property
    def root(self) -> int:
        return self.case.root or 0

    @property
    def size(self) -> int:
        return self.case.world_size

    @property
    def whole_tensors(self) -> bool:
        return self.specification.carries == "buffer"

    @cached_property
    def full(self) -> list[Message]:
        """The messages that are not empty."""
        return [message for message in self.trace if message.nbytes]

    @property
    def total(self) -> int:
        """How many messages that are not empty there should be."""
        if self.case.collective == "scatter":
            return sum(1 for rank, length in enumerate(self.case.chunk_lengths) if length and rank != self.root)
        if self.case.length == 0 or self.size == 1:
            return 0
        return self.size if self.case.collective == "shift" else self.size - 1


def explain_pattern_traffic(case: Case, trace: Trace, specification: PatternSpecification) -> Remark | None:
    """The remark about the first thing that is not as specified; None if all is.

    Args:
        trace: all messages of the run, also those that don't count.
    """
    foreign = [message for message in trace if not specification.counts(message)]
    if foreign:
        return explain_foreign(case.function, foreign, len(trace))
    traffic = _Traffic(case, trace, specification)
    shape = {"ring": _ring, "star": _star, "tree": _total}[specification.topology]
    questions = (_silence, shape, _sizes, _total, _by_rank, _rounds, _steps)
    return next((remark for remark in (question(traffic) for question in questions) if remark), None)


def _silence(traffic: _Traffic) -> Remark | None:
    return explain_silence(traffic.trace, traffic.total)


def _ring(traffic: _Traffic) -> Remark | None:
    aside = [message for message in traffic.full if message.dst != (message.src + 1) % traffic.size]
    if not aside:
        return None
    return Remark(
        f"the values are right, but rank {aside[0].src} sent to rank {aside[0].dst}; it should send to rank "
        f"{(aside[0].src + 1) % traffic.size} only.",
        (describe(aside[0]),),
        "the tensors take a detour. In a shift nobody collects: each tensor goes straight to the next rank.",
    )


def _star(traffic: _Traffic) -> Remark | None:
    outward = traffic.case.collective in _OUTWARD
    aside = [m for m in traffic.full if (m.src if outward else m.dst) != traffic.root]
    if not aside:
        return None
    rule = "come from" if outward else "go to"
    return Remark(
        f"the values are right, but rank {aside[0].src} sent to rank {aside[0].dst}; every message should {rule} the "
        f"root, rank {traffic.root}.",
        (describe(aside[0]),),
        _star_cause(traffic, outward),
    )


def _star_cause(traffic: _Traffic, outward: bool) -> str:
    if traffic.trace.rounds > 1:
        return (
            "the tensors are passed on from rank to rank. Here each one travels once, straight between root and rank."
        )
    if outward:
        return "only the root has something to send."
    return "every rank sends to the root, and to nobody else; the others do not need what is gathered."


def _sizes(traffic: _Traffic) -> Remark | None:
    return _whole(traffic) if traffic.whole_tensors else _chunks(traffic)


def _whole(traffic: _Traffic) -> Remark | None:
    wrong = [message for message in traffic.full if message.nbytes != traffic.case.nbytes]
    if not wrong:
        return None
    found = f"{math.prod(wrong[0].shape)} {wrong[0].dtype}"
    return Remark(
        f"the values are right, but a message carries {found}; each should carry the whole tensor of "
        f"{traffic.case.size}.",
        (describe(wrong[0]),),
        f"the tensor is sent in parts, or in another dtype. Send it whole, as {dtype_name(traffic.case.dtype)}.",
    )


def _chunks(traffic: _Traffic) -> Remark | None:
    size = traffic.case.dtype.itemsize
    for message in traffic.full:
        wanted = traffic.case.chunk_lengths[message.dst] * size
        if message.nbytes > wanted:
            return Remark(
                f"the values are right, but rank {message.dst} was sent {message.nbytes:,} bytes; its "
                f"chunk has {wanted:,}.",
                (describe(message),),
                _chunk_cause(traffic, message),
            )
    return None


def _chunk_cause(traffic: _Traffic, message: Message) -> str:
    if message.nbytes == traffic.case.nbytes:
        return "the whole tensor is sent. That is a broadcast. Cut it first, and send each rank only its chunk."
    return (
        "chunks are padded to the same length, or sent in another dtype. Receive into a buffer as long as the chunk "
        "that comes."
    )


def _total(traffic: _Traffic) -> Remark | None:
    found, expected = len(traffic.full), traffic.total
    were = "was" if expected == 1 else "were"
    if found == expected:
        return None
    by_rank = ", ".join(map(str, traffic.trace.messages_sent))
    return Remark(
        f"the values are right, but there were {count(found, 'message')}; {expected} {were} expected.",
        (f"messages sent by each rank: {by_rank}",),
        _total_cause(traffic, found),
    )


def _total_cause(traffic: _Traffic, found: int) -> str:
    if found > 2 * traffic.total and traffic.case.collective != "shift" and traffic.whole_tensors:
        return "every rank sends to every other one, or element by element. One whole tensor to each rank is enough."
    if found > traffic.total:
        twice = [pair for pair, times in Counter((m.src, m.dst) for m in traffic.full).items() if times > 1]
        if twice:
            return f"rank {twice[0][0]} sends to rank {twice[0][1]} more than once. Once is enough, in one message."
        return "some rank is sent what it does not need."
    return "some values came without a message of yours."


def _by_rank(traffic: _Traffic) -> Remark | None:
    expected = traffic.specification.messages_by_rank(traffic.size, traffic.root)
    if expected is None:
        return None
    full = Counter(message.src for message in traffic.full)
    exact = traffic.case.length >= traffic.size
    wrong = [r for r in range(traffic.size) if full[r] > expected[r] or (exact and full[r] < expected[r])]
    if not wrong:
        return None
    return Remark(
        f"the values are right, but rank {wrong[0]} sent {count(full[wrong[0]], 'message')}; {expected[wrong[0]]} "
        f"{'was' if expected[wrong[0]] == 1 else 'were'} expected.",
        (
            f"messages sent by each rank: {', '.join(str(full[rank]) for rank in range(traffic.size))}; expected: "
            f"{', '.join(map(str, expected))}",
        ),
        "the messages do not flow the way the exercise describes. Who has to send, and how often?",
    )


def _rounds(traffic: _Traffic) -> Remark | None:
    if traffic.specification.rounds is None or not traffic.full:
        return None
    found, expected = traffic.trace.rounds, traffic.specification.rounds(traffic.size)
    if found <= expected:
        return None
    last = max(traffic.full, key=lambda message: message.round)
    return Remark(
        f"the values are right, but they took {count(found, 'round')}; {expected} {'was' if expected == 1 else 'were'} "
        "expected. (A round: messages that need not wait for one another.)",
        (describe(last),),
        "some rank receives before it sends, so the next one has to wait for it. Let every rank send and receive at "
        "the same time: comm.exchange(outgoing, next_rank, incoming, previous_rank).",
    )


def _steps(traffic: _Traffic) -> Remark | None:
    if traffic.specification.steps is None or not traffic.full:
        return None
    outward = traffic.case.collective in _OUTWARD
    found = (broadcast_steps if outward else reduce_steps)(traffic.trace)
    limit = traffic.specification.steps(traffic.size)
    if found <= limit:
        return None
    return Remark(
        f"the values are right, but it takes {count(found, 'step')}; at most {limit} {'is' if limit == 1 else 'are'} "
        "allowed. (In one step a rank handles one message at most.)",
        (_routes(traffic),),
        _steps_cause(traffic, outward),
    )


def _routes(traffic: _Traffic) -> str:
    ordered = sorted(traffic.full, key=lambda message: (message.round, message.start))
    return "messages: " + ", ".join(f"{message.src} → {message.dst}" for message in ordered)


def _steps_cause(traffic: _Traffic, outward: bool) -> str:
    direct = all(traffic.root in (message.src, message.dst) for message in traffic.full)
    if direct and outward:
        return "the root sends to everybody itself, one after the other. Let those who have the tensor help."
    if direct:
        return "the root takes in every tensor itself, one after the other. Let others add up pairs first."
    if traffic.trace.rounds == traffic.size - 1:
        return "the tensor goes from rank to rank in a chain. In each step, let everybody work who can."
    if outward:
        return (
            "a tree, but some rank waits where it could send, or sends first to the rank that has least to pass on. In "
            "each step, every rank that has the tensor should send it to one that does not."
        )
    return "a tree, but not everybody who can send does so at once. In each step, half of the ranks hand in their sum."
