"""Are the messages those of an all-reduce by halving and doubling?

With N ranks, and P the largest power of two up to N, the ranks 0 to P - 1 are the core.

    in         rank P + i sends its tensor to a rank of the core
    halving    log₂ P steps: two ranks of the core exchange a half of what they work on: S/2, S/4, …, S/P
    doubling   log₂ P steps: two ranks of the core exchange all that they have: S/P, …, S/4, S/2
    out        rank P + i receives the sum from the core

Which rank is whose partner is free, and so is how an odd number of elements is cut in two. Where chunks are empty
(fewer elements than ranks) a function may send them or not: then only the total is exact.

What can't be seen: see `distlib.grading.traffic`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.grading.all_reduce_specification import AllReduceSpecification, Traffic, first_remark
from distlib.grading.case import Case, count, dtype_name
from distlib.grading.traffic import describe
from distlib.network.powers import beyond_power_of_two
from distlib.trace import Message, Trace

Limits = tuple[int, int]  # the least and the largest number of elements of a message


def explain_halving_traffic(case: Case, trace: Trace, specification: AllReduceSpecification) -> Remark | None:
    """The remark about the first thing that is not as specified; None if all is.

    Args:
        trace: all messages of the run, also those that don't count.
    """
    traffic = Traffic(case, trace, specification)
    questions = (_outside, _sizes, _counts, _partners, _rounds, _total)
    return first_remark(traffic, sum(_expected(traffic)), questions)


def _expected(traffic: Traffic) -> Sequence[int]:
    assert traffic.specification.messages is not None
    return traffic.specification.messages(traffic.size)


def _core(traffic: Traffic) -> int:
    """P, the number of ranks that halve and double."""
    return beyond_power_of_two(traffic.size)[1]


# ── how much ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sizes(traffic: Traffic) -> Remark | None:
    if not traffic.is_exact:
        return None
    for rank in range(traffic.size):
        for number, (message, limits) in enumerate(zip(traffic.sent_by(rank), _limits(traffic, rank), strict=False)):
            least, most = (elements * traffic.case.dtype.itemsize for elements in limits)
            if not least <= message.nbytes <= most:
                return _wrong_size(traffic, message, number, limits)
    return None


def _limits(traffic: Traffic, rank: int) -> list[Limits]:
    """How many elements each message of a rank may have. A half may be one of elements, or of chunks."""
    length, core = traffic.case.length, _core(traffic)
    if rank >= core:
        return [(length, length)]
    blocks = [core >> step for step in range(1, core.bit_length())]  # P/2, …, 2, 1 chunks
    halving = [(block * (length // core), block * math.ceil(length / core)) for block in blocks]
    out = [(length, length)] if rank + core < traffic.size else []
    return [*halving, *reversed(halving), *out]


def _wrong_size(traffic: Traffic, message: Message, number: int, limits: Limits) -> Remark:
    least, most = limits
    wanted = f"{least}" if least == most else f"{least} to {most}"
    return Remark(
        f"the values are right, but message {number + 1} of rank {message.src} carries {_elements(message)}; {wanted} "
        f"were expected: {_what(traffic, message.src, number)}.",
        (describe(message), f"elements of rank {message.src}'s messages: {_lengths(traffic, message.src)}"),
        _cause_of_size(traffic, message, number),
    )


def _what(traffic: Traffic, rank: int, number: int) -> str:
    steps = _core(traffic).bit_length() - 1
    if rank >= _core(traffic) or number >= 2 * steps:
        return "the whole tensor"
    parts = 2 ** (number + 1 if number < steps else 2 * steps - number)
    return f"1/{parts} of the tensor, in step {number + 1} of {2 * steps}"


def _cause_of_size(traffic: Traffic, message: Message, number: int) -> str:
    case = traffic.case
    sent = [other.nbytes for other in traffic.sent_by(message.src)]
    if message.dtype != dtype_name(case.dtype):
        return f"the message's dtype differs from the tensor's. Send it unchanged, as {dtype_name(case.dtype)}."
    if message.src >= _core(traffic):
        return f"ranks {_core(traffic)} and up send their whole tensor, and take no part in halving."
    if message.nbytes == case.nbytes:
        return (
            "whole tensors travel, as in a tree. Cut it: a rank sends the half that its partner is to keep, and adds "
            "to the half that it keeps itself."
        )
    if sent == sorted(sent) and sent[0] < sent[-1]:
        return "the doubling comes first. Begin with halving: the first message is the largest, half of the tensor."
    if len(set(sent)) == 1 and _core(traffic) > 2:
        return (
            "every message carries one chunk, as in a ring. In the first step of halving a rank sends half of the "
            "tensor, then a quarter, and so on."
        )
    if number >= _core(traffic).bit_length() - 1:
        return (
            "when doubling, a rank sends all that is complete on it: first one chunk, then two, four and so on, and no "
            "more than that."
        )
    return (
        "a rank goes on with the half that it keeps: what it sends in the next step is half of that half. Cut it "
        "without filling it up."
    )


def _lengths(traffic: Traffic, rank: int) -> str:
    return ", ".join(str(math.prod(message.shape)) for message in traffic.sent_by(rank))


def _total(traffic: Traffic) -> Remark | None:
    """Halves need not be equal: together, all must make up the tensor."""
    extra, core = beyond_power_of_two(traffic.size)
    found, expected = sum(traffic.trace.bytes_sent), 2 * (core - 1 + extra) * traffic.case.nbytes
    if found == expected:
        return None
    return Remark(
        f"the values are right, but all ranks together sent {found:,} bytes; {expected:,} were expected.",
        (f"bytes sent by each rank: {', '.join(f'{sent:,}' for sent in traffic.trace.bytes_sent)}",),
        "the two halves of a step are not the whole of what was there: is one of them padded, or do they overlap?",
    )


# ── how often, to whom, in how many rounds ───────────────────────────────────────────────────────────────────────────


def _counts(traffic: Traffic) -> Remark | None:
    expected = _expected(traffic)
    full = [len(traffic.sent_by(rank)) for rank in range(traffic.size)]
    found = traffic.trace.messages_sent if traffic.is_exact else full
    wrong = [r for r in range(traffic.size) if found[r] > expected[r] or (traffic.is_exact and found[r] < expected[r])]
    if not wrong:
        return None
    rank = wrong[0]
    return Remark(
        f"the values are right, but rank {rank} sent {count(found[rank], 'message')}; {expected[rank]} "
        f"{'was' if expected[rank] == 1 else 'were'} expected.",
        (f"messages sent by each rank: {_list(found)}; expected: {_list(expected)}",),
        _cause_of_count(traffic, found),
    )


def _outside(traffic: Traffic) -> Remark | None:
    """Whether others than the last ranks hand their tensor in."""
    core = _core(traffic)
    found, expected = traffic.trace.messages_sent, _expected(traffic)
    if not traffic.is_exact or list(found) == list(expected) or sorted(found) != sorted(expected):
        return None
    return Remark(
        f"the values are right, but the ranks send {_list(found)} messages; {_list(expected)} were expected.",
        cause=f"you leave out different ranks than the exercise does. Here ranks {core} and up first send their tensor "
        f"to rank - {core}, and get the sum from there at the end.",
    )


def _cause_of_count(traffic: Traffic, found: Sequence[int]) -> str:
    extra, core = beyond_power_of_two(traffic.size)
    if extra:
        return (
            f"{traffic.size} is not a power of two. Ranks {core} and up send once, and receive once; the first "
            f"{core} ranks halve and double."
        )
    if all(message.nbytes == traffic.case.nbytes for message in traffic.full):
        return "whole tensors travel. Halving and doubling sends a half, a quarter and so on, and the same back."
    return "there are log2(N) steps of halving and log2(N) of doubling, and a rank sends one message in each."


def _partners(traffic: Traffic) -> Remark | None:
    if not traffic.is_exact:
        return None
    core = _core(traffic)
    sent = [[message for message in traffic.sent_by(rank) if message.dst < core] for rank in range(core)]
    for messages in sent:
        for step, message in enumerate(messages):
            back = sent[message.dst][step] if message.dst < core and step < len(sent[message.dst]) else None
            if back is not None and back.dst != message.src:
                return Remark(
                    f"the values are right, but in step {step + 1} rank {message.src} sends to rank {message.dst}, and "
                    f"that one to rank {back.dst}. Two ranks should exchange.",
                    (describe(message), describe(back)),
                    "in every step the ranks form pairs, such as rank and rank ^ distance.",
                )
    return None


def _rounds(traffic: Traffic) -> Remark | None:
    assert traffic.specification.rounds is not None
    found, expected = traffic.trace.rounds, traffic.specification.rounds(traffic.size)
    if found == expected or (not traffic.is_exact and found < expected):
        return None
    last = max(traffic.full or list(traffic.trace), key=lambda message: message.round)
    return Remark(
        f"the values are right, but they took {count(found, 'round')}; {expected} "
        f"{'was' if expected == 1 else 'were'} expected. (A round: messages that need not wait for one another.)",
        (describe(last),),
        "one rank of a pair receives first and sends afterwards, so each step takes two rounds. Let both send and "
        "receive at the same time: comm.exchange(outgoing, partner, incoming, partner)."
        if found > expected
        else "each step must build on the one before: what a rank has received is part of what it sends next.",
    )


def _elements(message: Message) -> str:
    return f"{math.prod(message.shape)} {message.dtype}"


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
