"""What goes through a master: from whom to whom, how many bytes, in how many messages; and what is said if it differs.

rank 0 ──its part, 32 bytes, 1 message──► rank 1
rank 0 ──its part, 24 bytes, 1 message──► rank 2        nothing else
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distlib.checks.remark import Remark
from distlib.grading.case import count
from distlib.trace import Trace

NOBODY_ELSE = "everything comes from rank 0 or goes to it: the other ranks have nothing to tell each other."


@dataclass(frozen=True)
class Way:
    """What one rank should send another, all in all.

    Attributes:
        src, dst: the two ranks.
        nbytes: exactly this many bytes.
        messages: at most this many messages.
        what: what these bytes are, in words.
        causes: other numbers of bytes, and what usually causes them.
    """

    src: int
    dst: int
    nbytes: int
    messages: int
    what: str
    causes: Mapping[int, str] = field(default_factory=dict)


def judge_ways(trace: Trace, ways: Sequence[Way], nothing_else: str) -> Remark | None:
    """Compare what was sent with what should be sent. `nothing_else`: the usual cause of bytes on any other way."""
    nbytes: Counter[tuple[int, int]] = Counter()
    messages: Counter[tuple[int, int]] = Counter()
    for message in trace:
        nbytes[message.src, message.dst] += message.nbytes
        messages[message.src, message.dst] += 1
    for way in ways:
        sent = nbytes.pop((way.src, way.dst), 0)
        if sent != way.nbytes:
            return _wrong_bytes(way, sent)
        if messages[way.src, way.dst] > way.messages:
            return _too_many(way, messages[way.src, way.dst])
    for (src, dst), sent in nbytes.items():
        seen = f"the values are right, but rank {src} sends rank {dst} {count(sent, 'byte')}, and should send nothing."
        return Remark(seen, cause=nothing_else)
    return None


def _wrong_bytes(way: Way, sent: int) -> Remark:
    return Remark(
        f"the values are right, but rank {way.src} sends rank {way.dst} {count(sent, 'byte')}. Expected: {way.what}, "
        f"{count(way.nbytes, 'byte')}.",
        cause=way.causes.get(sent, "too much" if sent > way.nbytes else "too little") + _end(way, sent),
    )


def _end(way: Way, sent: int) -> str:
    return "" if sent in way.causes else f" is sent. It should be {way.what}, once, in its own dtype."


def _too_many(way: Way, messages: int) -> Remark:
    return Remark(
        f"the values are right, but rank {way.src} sends rank {way.dst} {count(messages, 'message')}. "
        f"{count(way.messages, 'message')} will do: {way.what}.",
        cause="every message pays for its latency. Send a whole tensor at once.",
    )
