"""Rules about the messages of a run: who sent whom how much, in how many messages, rounds and steps.

Why something is wrong is a table of the exercise: pairs of a condition on the `SentMessages` and a sentence. The first
condition that holds gives the sentence; a pair without a condition always holds. {names} in a sentence are filled in.

    why = [(lambda t: t.carries_whole, "the whole buffer goes round. Cut it first."), (None, "send {dtype}, as it is.")]

Empty messages may be sent or not. So where chunks are empty, messages and rounds have an upper limit only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from distlib.checks.formatting import count, dtype_name, listed, were
from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.tensor_cases import TensorCase, tensor_facts
from distlib.trace import Message, Trace

say = Sentences(__file__)
ROUND, STEP = say("round"), say("step")
DTYPE = say.templates["dtype"]  # of a table: filled in by `reason`


@dataclass
class SentMessages:
    """The messages of one run of a `TensorCase`, and questions about them that many exercises ask.

    For a case with other facts: `sends`, which asks `seen` alone.
    """

    seen: Seen

    @property
    def case(self) -> TensorCase:
        """The facts of the case.

        Raises:
            TypeError: there are none.
        """
        return tensor_facts(self.seen, "SentMessages")

    @property
    def trace(self) -> Trace:
        """All messages, also empty ones."""
        return self.seen.trace

    @cached_property
    def full(self) -> list[Message]:
        """The messages that are not empty: those may be sent or not."""
        return [message for message in self.trace if message.nbytes]

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.case.world_size

    @property
    def is_exact(self) -> bool:
        """Whether no chunk is empty, so that the number of messages is fixed."""
        return self.case.length >= self.size

    @property
    def carries_whole(self) -> bool:
        """Whether each message is as long as the whole tensor."""
        return all(message.nbytes == self.case.nbytes for message in self.full)

    @property
    def is_padded(self) -> bool:
        """Whether all messages have one length although the chunks have not."""
        return len({m.nbytes for m in self.full}) == 1 and bool(self.case.length % self.size)

    @cached_property
    def hub(self) -> int | None:
        """The rank that every message goes to or comes from, if there is one and there are at least 3 ranks."""
        ends = [{m.src, m.dst} for m in self.full]
        shared = set.intersection(*ends) if ends else set()
        return min(shared) if shared and self.size >= 3 else None

    def sent_by(self, rank: int) -> list[Message]:
        """The messages of one rank that are not empty."""
        return [message for message in self.full if message.src == rank]

    @property
    def arrows(self) -> str:
        """Who sent to whom, as a line."""
        return arrows(self.full)


Why = Sequence[tuple[Callable[..., bool] | None, str]]  # condition (None: always) and sentence


def arrows(messages: Iterable[Message]) -> str:
    """ "messages: 1 → 0, 3 → 2, 2 → 0", in the order of rounds."""
    ordered = sorted(messages, key=lambda m: (m.round, m.start))
    return "messages: " + ", ".join(f"{m.src} → {m.dst}" for m in ordered)


def such_as(m: Message) -> str:
    """A message as an example, with the line that sent it."""
    way = {"src": m.src, "dst": m.dst, "round": m.round, "place": m.site.place}
    return say("such_as", carried=carried(m), nbytes=m.nbytes, **way)


def carried(m: Message) -> str:
    """What a message carries: "4 float32"."""
    return f"{math.prod(m.shape)} {m.dtype}"


def reason(t: SentMessages, why: Why, **more: Any) -> str:
    """The sentence of the first pair whose condition holds. {names} in it are filled from the finding and the case."""
    names = {"dtype": dtype_name(t.case.dtype), "size": t.size, "hub": t.hub, "function": t.seen.case.function, **more}
    sentence = next((words for holds, words in why if holds is None or holds(t, **more)), "")
    return sentence.format(**names)


def right_but(t: SentMessages, seen: str, why: Why, *details: str, **more: Any) -> Remark:
    """The remark about messages that are not as they should be. `more`: what conditions and sentences may ask for."""
    return Remark(say("right_but", seen=seen), details, reason(t, why, **more))


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def silence(t: SentMessages, expected: int) -> Remark | None:
    """There are messages, where `expected` should have been sent."""
    if len(t.trace) or not expected or not t.case.length:
        return None
    return say.remark("no_message", expected=f"{count(expected, 'message')} {'was' if expected == 1 else 'were'}")


def is_other_dtype(t: SentMessages, m: Message, number: int = 0) -> bool:
    """Whether the dtype of a message differs from that of the tensor."""
    return m.dtype != dtype_name(t.case.dtype)


def goes(
    t: SentMessages, allowed: Callable[[int, int], bool], rule: Callable[[Message], str], why: Why
) -> Remark | None:
    """Who may send to whom."""
    aside = next((m for m in t.full if not allowed(m.src, m.dst)), None)
    if aside is None:
        return None
    return right_but(t, say("aside", src=aside.src, dst=aside.dst, rule=rule(aside)), why, such_as(aside))


def one_neighbor(t: SentMessages, messages: Sequence[Message], why: Why, along: str = "") -> Remark | None:
    """In a ring each rank sends to one other only."""
    for rank in range(t.size):
        peers = list(dict.fromkeys(m.dst for m in messages if m.src == rank))
        if len(peers) > 1:
            second = next(m for m in messages if m.src == rank and m.dst == peers[1])
            names = f"{', '.join(map(str, peers[:-1]))} and {peers[-1]}"
            seen = say("two_neighbors", along=along, rank=rank, peers=names)
            return right_but(t, seen, why, such_as(second))
    return None


def one_circle(t: SentMessages, why: Why, messages: Sequence[Message] | None = None) -> Remark | None:
    """The neighbors make one circle through all ranks."""
    successor = {m.src: m.dst for m in (t.full if messages is None else messages)}
    rank, visited = 0, []
    while rank in successor and rank not in visited:
        visited.append(rank)
        rank = successor[rank]
    if len(visited) in (0, t.size) and (not visited or rank == visited[0]):
        return None
    way = ", ".join(f"{src} → {dst}" for src, dst in sorted(successor.items()))
    return right_but(t, say("no_circle", way=way), why)


Limits = tuple[int, int] | set[int]  # the least and the largest number of elements, or all that may be


def carries(
    t: SentMessages,
    limits: Callable[[Message, int], Limits | None],
    what: Callable[..., str],
    why: Why,
    messages: Sequence[Message] | None = None,
    details: Callable[[Message], Iterable[str]] = lambda m: (),
) -> Remark | None:
    """How much each message carries. `limits(message, number)`: number counts the messages of its sender."""
    number: Counter[int] = Counter()
    for m in t.full if messages is None else messages:
        wanted, itemsize = limits(m, number[m.src]), t.case.dtype.itemsize
        number[m.src] += 1
        if wanted is None:
            continue
        if isinstance(wanted, tuple):
            fits = wanted[0] * itemsize <= m.nbytes <= wanted[1] * itemsize
        else:
            fits = m.nbytes in {length * itemsize for length in wanted}
        if not fits:
            k = number[m.src] - 1
            return right_but(t, what(m, k, wanted), why, such_as(m), *details(m), m=m, number=k)
    return None


def whole_tensors(t: SentMessages) -> Remark | None:
    """Each message carries the whole tensor."""

    def seen(m: Message, number: int, wanted: object) -> str:
        return say("not_whole", carried=carried(m), size=t.case.size)

    return carries(t, lambda m, number: {t.case.length}, seen, _CUT)


_CUT: Why = [
    (is_other_dtype, say.templates["cut_dtype"]),
    (lambda t, m, number: m.nbytes == t.case.dtype.itemsize, say("cut_elements")),
    (None, say("cut_parts")),
]


def total_bytes(
    t: SentMessages,
    expected: int,
    why: Why,
    messages: Sequence[Message] | None = None,
    who: str = say.templates["all_together"],
) -> Remark | None:
    """All messages together have this many bytes. `who`: how the remark begins."""
    found = sum(m.nbytes for m in (t.full if messages is None else messages))
    if found == expected:
        return None
    seen = say("total_bytes", who=who.format(found=found), expected=expected)
    return right_but(t, seen, why, f"bytes sent by each rank: {listed(t.trace.bytes_sent)}")


def number_of_messages(t: SentMessages, expected: int, why: Why, note: str = "") -> Remark | None:
    """There are this many messages that are not empty."""
    found = len(t.full)
    if found == expected:
        return None
    seen = say("number", found=count(found, "message"), expected=were(expected), note=note)
    line = f"messages sent by each rank: {listed(t.trace.messages_sent)}"
    return right_but(t, seen, why, line, found=found, expected=expected)


def messages_by_rank(
    t: SentMessages,
    expected: Sequence[int],
    why: Why,
    *details: str,
    along: str = "",
    messages: Sequence[Message] | None = None,
) -> Remark | None:
    """Each rank sends this many messages. `along`: how the remark begins; `messages`: those that count."""
    full = Counter(m.src for m in (t.full if messages is None else messages))
    found = [full[rank] for rank in range(t.size)]
    if t.is_exact and messages is None:
        found = list(t.trace.messages_sent)
    for rank in range(t.size):
        if full[rank] > expected[rank] or (t.is_exact and found[rank] != expected[rank]):
            numbers = {"found": count(found[rank], "message"), "expected": were(expected[rank])}
            seen = say("by_rank", along=along, rank=rank, **numbers)
            line = f"messages sent by each rank: {listed(found)}; expected: {listed(expected)}"
            more = {"found": found[rank], "expected": expected[rank], "alike": min(found) == max(found)}
            return right_but(t, seen, why, line, *details, **more)
    return None


def rounds(t: SentMessages, expected: int, why: Why, at_most: bool = False) -> Remark | None:
    """The run takes this many rounds, or at most this many."""
    found = t.trace.rounds
    if found == expected or (found < expected and (at_most or not t.is_exact)):
        return None
    last = max(t.full or list(t.trace), key=lambda m: m.round)
    seen = say("rounds", found=count(found, "round"), expected=were(expected))
    return right_but(t, seen, why, such_as(last), found=found, expected=expected)


def steps(
    t: SentMessages, messages: Sequence[Message], found: int, limit: int, why: Why, way: str = "it"
) -> Remark | None:
    """The run takes at most `limit` steps. `found`: how many it takes, from a rule of the exercise."""
    if found <= limit:
        return None
    seen = say("steps", way=way, found=count(found, "step"), limit=limit)
    return right_but(t, seen, why, arrows(messages), messages=messages)


# ── messages that are not chunks of one tensor ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Way:
    """What one rank should send another, all in all: exactly this many bytes, in at most this many messages.

    Attributes:
        nbytes, messages: of all together.
        what: in words: "its rows".
        mistakes: from a number of bytes to the words for the mistake that gives it.
    """

    nbytes: int
    what: str
    messages: int = 1
    mistakes: Mapping[int, str] = field(default_factory=dict)


def sends(seen: Seen, ways: Mapping[tuple[int, int], Way], nothing_else: str) -> Iterator[Remark | None]:
    """Who sends whom how much, and nobody anything else: a message between other ranks comes first.

    In a judge: `yield from sends(…)`. It does not look at rounds or times.

    Args:
        ways: from (source, destination) to what goes there.
        nothing_else: the cause where a rank sends to one that it should send nothing.
    """
    nbytes: Counter[tuple[int, int]] = Counter()
    messages: Counter[tuple[int, int]] = Counter()
    for message in seen.trace:
        nbytes[message.src, message.dst] += message.nbytes
        messages[message.src, message.dst] += 1
    for (src, dst), sent in nbytes.items():
        if sent and (src, dst) not in ways:
            yield say.remark("sends_nothing", src=src, dst=dst, sent=count(sent, "byte"), cause=nothing_else)
    for (src, dst), way in ways.items():
        pair, sent, found = {"src": src, "dst": dst}, nbytes[src, dst], messages[src, dst]
        if sent != way.nbytes:
            otherwise = say("too_much" if sent > way.nbytes else "too_little", what=way.what)
            cause, numbers = way.mistakes.get(sent, otherwise), {"sent": count(sent, "byte"), "what": way.what}
            yield say.remark("sends", **pair, **numbers, nbytes=count(way.nbytes, "byte"), cause=cause)
        if found > way.messages:
            numbers = {"found": count(found, "message"), "messages": count(way.messages, "message")}
            yield say.remark("too_often", **pair, **numbers, what=way.what)
