"""Is it the algorithm that was asked for? Values cannot tell a ring from a gather; messages can.

A message counts if the student's own line sent it, or a helper that the check supplied. What a library function sends
(distlib.collectives, torch) does not count, nor does what code made from a text (exec) sends.

Compared with the specification are, in this order: who sent, to whom, how much in each message, how many messages, and
in how many rounds. Where chunks are empty (fewer elements than ranks) a function may send them or not: then messages
and rounds have an upper limit only.

What can't be seen: data that travels without a message (a file, shared memory, torch.distributed) while dummy messages
make the counts right. Seen is only that the messages would have been enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from distlib.checks.remark import Remark
from distlib.grading.case import Case, count, dtype_name
from distlib.grading.specification import EXECUTED_TEXT, Specification
from distlib.trace import Message, Trace


@dataclass(frozen=True)
class _Traffic:
    """The messages of one run against what they should be."""

    case: Case
    trace: Trace
    specification: Specification

    @property
    def whole(self) -> int:
        return self.case.length

    @property
    def is_exact(self) -> bool:
        """Whether the number of messages is fixed. Empty chunks may be sent or not."""
        return self.case.length >= self.case.world_size

    @property
    def expected(self) -> list[int]:
        return self.specification.messages_by_rank(self.case.world_size)

    @property
    def full_messages(self) -> list[Message]:
        return [message for message in self.trace if message.nbytes]


_LIBRARY_ITSELF = "distlib.grading.rank_side"  # then no line of the student's stands between us and the library


def explain_traffic(case: Case, trace: Trace, specification: Specification) -> Remark | None:
    """The remark about the first thing that is not as specified; None if all is.

    Args:
        trace: all messages of the run, also those that don't count.
    """
    foreign = [message for message in trace if not specification.counts(message)]
    if foreign:
        return explain_foreign(case.function, foreign, len(trace))
    traffic = _Traffic(case, trace, specification)
    questions = (_any_messages, _star if specification.topology == "star" else _ring, _sizes, _counts, _rounds)
    return next((remark for remark in (question(traffic) for question in questions) if remark), None)


# ── who sent ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def explain_foreign(function: str, foreign: Sequence[Message], total: int) -> Remark:
    """The remark about messages that no line of the student's own sent; `total` is how many there were in all."""
    first = foreign[0]
    if first.site.file == EXECUTED_TEXT:
        return Remark(
            f"{len(foreign)} of {count(total, 'message')} were sent by code that was made from a text (exec).",
            cause=f"write {function} as lines of this notebook.",
        )
    if _LIBRARY_ITSELF in (first.site.via or ""):
        who = f"{function} is a function of the library itself"
    else:
        who = f"{len(foreign)} of {count(total, 'message')} were sent by {sender(first)}, not by lines of yours"
    return Remark(
        f"the values are right, but {who}.",
        cause=f"a library function does the work. The exercise is to write {function} with comm.send, comm.recv "
        "and comm.exchange.",
    )


def sender(message: Message) -> str:
    """Who sent a message that is not a student's own, and from where."""
    via = message.site.via or ""
    library = via if via.startswith("distlib.") else "a library function"
    return f"{library}, called at {message.site.place}"


def _any_messages(traffic: _Traffic) -> Remark | None:
    return explain_silence(traffic.trace, sum(traffic.expected) if traffic.whole else 0)


def explain_silence(trace: Trace, expected: int) -> Remark | None:
    """The remark about a run without any message, where `expected` messages should have been sent."""
    if len(trace) or not expected:
        return None
    return Remark(
        f"the values are right, but no message was seen; {count(expected, 'message')} "
        f"{'was' if expected == 1 else 'were'} expected.",
        cause="the values came some other way, such as torch.distributed. Use comm.send, comm.recv and comm.exchange: "
        "only those are counted.",
    )


# ── to whom ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _star(traffic: _Traffic) -> Remark | None:
    aside = [message for message in traffic.full_messages if 0 not in (message.src, message.dst)]
    if not aside:
        return None
    hub = _hub(traffic)
    if hub is not None and traffic.trace.rounds == 2:
        cause = f"everything passes through rank {hub}. The master of this exercise is rank 0."
    elif traffic.trace.rounds > 2:
        cause = "the sum goes from rank to rank. Here the others talk to the master, rank 0, and to nobody else."
    else:
        cause = "only rank 0, the master, collects and adds up. The other ranks send to it and receive from it."
    return Remark(
        f"the values are right, but rank {aside[0].src} sent to rank {aside[0].dst}; every message should go to rank 0 "
        "or come from it.",
        (describe(aside[0]),),
        cause,
    )


def _ring(traffic: _Traffic) -> Remark | None:
    receivers = _receivers(traffic)
    hub = _hub(traffic)
    if hub is not None:
        return _through_a_hub(traffic, hub)
    for rank, peers in receivers.items():
        if len(peers) > 1:
            return _several_receivers(traffic, rank, peers)
    if traffic.is_exact and not _is_one_circle({rank: peers[0] for rank, peers in receivers.items()}, traffic.case):
        return _no_circle(traffic)
    return None


def _receivers(traffic: _Traffic) -> dict[int, list[int]]:
    """To whom each rank sent, in the order of first messages; only ranks that sent anything."""
    receivers: dict[int, list[int]] = {}
    for message in traffic.full_messages:
        peers = receivers.setdefault(message.src, [])
        if message.dst not in peers:
            peers.append(message.dst)
    return dict(sorted(receivers.items()))


def _hub(traffic: _Traffic) -> int | None:
    """The rank that every message goes to or comes from, if there is one and there are at least 3 ranks."""
    ends = [{message.src, message.dst} for message in traffic.full_messages]
    shared = set.intersection(*ends) if ends else set()
    return min(shared) if shared and traffic.case.world_size >= 3 else None


def _through_a_hub(traffic: _Traffic, hub: int) -> Remark:
    nbytes, size = traffic.case.nbytes, traffic.case.world_size
    sent, received = traffic.trace.bytes_sent[hub], traffic.trace.bytes_received[hub]
    return Remark(
        f"the values are right, but everything passes through rank {hub}: it receives {received:,} bytes and sends "
        f"{sent:,}, {(sent + received) / nbytes:g} times the buffer of {nbytes:,} bytes.",
        (describe(traffic.full_messages[0]),),
        f"rank {hub} is a master here, as in naive_all_reduce. In a ring of {size} ranks no rank is special: each "
        "sends one chunk to its neighbor on one side and receives one from the other side, in every step.",
    )


def _several_receivers(traffic: _Traffic, rank: int, peers: Sequence[int]) -> Remark:
    names = f"{', '.join(map(str, peers[:-1]))} and {peers[-1]}"
    second = next(m for m in traffic.full_messages if m.src == rank and m.dst != peers[0])
    if all(message.nbytes == traffic.case.nbytes for message in traffic.full_messages):
        cause = _WHOLE_BUFFERS
    else:
        cause = (
            "each chunk goes straight to the rank that needs it. In a ring a rank sends to one neighbor only, and the "
            "chunk is passed on from rank to rank."
        )
    return Remark(
        f"the values are right, but rank {rank} sent to ranks {names}. In a ring it sends to one neighbor only.",
        (describe(second),),
        cause,
    )


def _is_one_circle(successor: dict[int, int], case: Case) -> bool:
    rank, visited = 0, []
    while rank in successor and rank not in visited:
        visited.append(rank)
        rank = successor[rank]
    return len(visited) in (0, case.world_size) and (not visited or rank == visited[0])


def _no_circle(traffic: _Traffic) -> Remark:
    arrows = ", ".join(f"{rank} → {peers[0]}" for rank, peers in _receivers(traffic).items())
    return Remark(
        f"the values are right, but the messages do not go once round all ranks: {arrows}.",
        cause="the neighbors of a rank in the ring are (comm.rank + 1) % comm.world_size and "
        "(comm.rank - 1) % comm.world_size.",
    )


# ── how much, how often ──────────────────────────────────────────────────────────────────────────────────────────────

_WHOLE_BUFFERS = (
    "every rank gets the whole buffer of every other rank and adds up by itself: N - 1 buffers per rank, more with "
    "every rank. Cut the tensor with torch.tensor_split, send one chunk per step, and let the sum grow on its way."
)


_PADDED = (
    "all chunks are padded to the same length, so more bytes travel than need to. torch.tensor_split cuts chunks of "
    "different lengths: receive into a buffer as long as the chunk that comes."
)


def _sizes(traffic: _Traffic) -> Remark | None:
    if traffic.specification.carries == "buffer":
        wrong = [message for message in traffic.full_messages if message.nbytes != traffic.case.nbytes]
        return _partial_buffer(traffic, wrong[0]) if wrong else None
    allowed = {length * traffic.case.dtype.itemsize for length in traffic.case.chunk_lengths}
    wrong = [message for message in traffic.full_messages if message.nbytes not in allowed]
    return _no_chunk(traffic, wrong[0]) if wrong else _total(traffic)


def _partial_buffer(traffic: _Traffic, message: Message) -> Remark:
    return Remark(
        f"the values are right, but a message carries {_elements(message)}; each should carry the whole buffer of "
        f"{traffic.case.size}.",
        (describe(message),),
        "the naive all-reduce does not cut the tensor: a rank sends all of it to rank 0, and gets the whole sum back.",
    )


def _no_chunk(traffic: _Traffic, message: Message) -> Remark:
    case = traffic.case
    lengths = ", ".join(str(length) for length in case.chunk_lengths)
    return Remark(
        f"the values are right, but a message carries {_elements(message)}. Each should carry one chunk; the chunks of "
        f"{case.size} on {count(case.world_size, 'rank')} have {lengths} elements.",
        (describe(message), *_bytes_line(traffic)),
        _size_cause(traffic, message),
    )


def _size_cause(traffic: _Traffic, message: Message) -> str:
    if message.nbytes == traffic.case.nbytes:
        return _whole_buffer_cause(traffic)
    if message.dtype != dtype_name(traffic.case.dtype):
        return f"the message's dtype differs from the tensor's. Send it unchanged, as {dtype_name(traffic.case.dtype)}."
    if len({other.nbytes for other in traffic.full_messages}) == 1 and traffic.whole % traffic.case.world_size:
        return _PADDED
    return "cut the flattened tensor with torch.tensor_split(flat, comm.world_size), and send one chunk in each step."


def _whole_buffer_cause(traffic: _Traffic) -> str:
    size, sent = traffic.case.world_size, traffic.trace.messages_sent
    if len(traffic.trace) == 2 * (size - 1) and traffic.trace.rounds == 2:
        return (
            "one rank collects everything and sends the result out: that is the master of naive_all_reduce. In a ring "
            "no rank is special, and what travels is one chunk at a time."
        )
    if max(sent) == size - 1 and traffic.case.collective != "all_gather":
        return _WHOLE_BUFFERS
    return (
        "the whole buffer goes round the ring in every step. Cut it with torch.tensor_split(flat, comm.world_size), "
        "and send one chunk per step."
    )


def _total(traffic: _Traffic) -> Remark | None:
    """Chunks are of different length: together, each must have been sent equally often."""
    found, expected = sum(traffic.trace.bytes_sent), _expected_total(traffic)
    if found == expected or sum(traffic.trace.messages_sent) != sum(traffic.expected):
        return None
    return Remark(
        f"the values are right, but all ranks together sent {found:,} bytes; {expected:,} were expected.",
        tuple(_bytes_line(traffic)),
        _total_cause(traffic),
    )


def _total_cause(traffic: _Traffic) -> str:
    if len({message.nbytes for message in traffic.full_messages}) == 1:
        return _PADDED
    return "some chunk is sent more often than needed, and another one less often."


def _expected_total(traffic: _Traffic) -> int:
    return sum(traffic.expected) * traffic.case.nbytes // traffic.case.world_size


def _counts(traffic: _Traffic) -> Remark | None:
    found, expected = traffic.trace.messages_sent, traffic.expected
    full = Counter(message.src for message in traffic.full_messages)
    if traffic.is_exact:
        wrong = [rank for rank in range(traffic.case.world_size) if found[rank] != expected[rank]]
    else:
        wrong = [rank for rank in range(traffic.case.world_size) if full[rank] > expected[rank]]
    if not wrong:
        return None
    rank = wrong[0]
    return Remark(
        f"the values are right, but rank {rank} sent {count(found[rank], 'message')}; {expected[rank]} "
        f"{'was' if expected[rank] == 1 else 'were'} expected.",
        (f"messages sent by each rank: {_list(found)}; expected: {_list(expected)}", *_bytes_line(traffic)),
        _count_cause(traffic, found[rank], expected[rank]),
    )


def _count_cause(traffic: _Traffic, found: int, expected: int) -> str:
    if traffic.specification.topology == "star":
        return "a rank sends its tensor to the master once; the master sends the sum to each of the others once."
    steps = traffic.case.world_size - 1
    if found in (expected + 1, expected + max(1, expected // steps)):
        return (
            "a loop runs one step too often. After world_size - 1 steps every chunk has been everywhere once, and need "
            "not go round again."
        )
    if found > expected:
        return "something is sent twice. In each step a rank sends one chunk, in one message."
    return (
        f"is its loop one step short? In a ring every rank sends one chunk in every step: {expected} messages in all."
    )


def _rounds(traffic: _Traffic) -> Remark | None:
    found, expected = traffic.trace.rounds, traffic.specification.rounds(traffic.case.world_size)
    if found == expected or (not traffic.is_exact and found < expected):
        return None
    last = max(traffic.full_messages or list(traffic.trace), key=lambda message: message.round)
    return Remark(
        f"the values are right, but they took {count(found, 'round')}; {expected} "
        f"{'was' if expected == 1 else 'were'} expected. (A round: messages that need not wait for one another.)",
        (describe(last),),
        _round_cause(traffic, found, expected),
    )


def _round_cause(traffic: _Traffic, found: int, expected: int) -> str:
    if traffic.specification.topology == "star" and found < expected:
        return (
            "rank 0 sends before it has received: the others get its own values, not the sum, and add up by "
            "themselves. The master must receive from everybody, add, and then send the sum."
        )
    if traffic.specification.topology == "star":
        return "some rank receives from the master before it sends to it, so the next one has to wait for it."
    if found > expected:
        return (
            "your sends wait for one another: a rank receives first and sends afterwards, so its neighbor can only "
            "start a round later. Let every rank send and receive at the same time: comm.exchange(outgoing, next_rank, "
            "incoming, previous_rank)."
        )
    return "a chunk has to visit every rank, one step after the other. Here some steps do not build on the one before."


# ── wording ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe(message: Message) -> str:
    """ "such as: rank 0 to rank 1, 6 float32 = 24 bytes, round 1, sent by cell 7, line 12"."""
    return (
        f"such as: rank {message.src} to rank {message.dst}, {_elements(message)} = {message.nbytes:,} bytes, round "
        f"{message.round}, sent by {message.site.place}"
    )


def _elements(message: Message) -> str:
    return f"{math.prod(message.shape)} {message.dtype}"


def _bytes_line(traffic: _Traffic) -> list[str]:
    """Bytes of each rank next to the expected ones; nothing if they are the same."""
    found, expected = _list(traffic.trace.bytes_sent), _expected_bytes(traffic)
    return [] if found == expected else [f"bytes sent by each rank: {found}; expected: {expected}"]


def _expected_bytes(traffic: _Traffic) -> str:
    case, messages = traffic.case, traffic.expected
    if traffic.specification.carries == "buffer":
        return _list([number * case.nbytes for number in messages])
    each = [number * case.nbytes / case.world_size for number in messages]
    about = "" if case.length % case.world_size == 0 else "about "
    return about + _list([round(value) for value in each])


def _list(values: Sequence[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)
