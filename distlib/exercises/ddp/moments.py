"""Rules about moments, in virtual time: what a rank does in one pass of training, between the gates of its layers.

    BEGIN ── forward ── BACKWARD ── 10 ms ── gate 2 ── 10 ms ── gate 1 ── 10 ms ── gate 0 ── finish ── END
                                                ╰ all-reduce of bucket 0 ╯

Computing passes virtual time only at gates. So a rank that waits inside backward for its messages is seen by its gates:
there is more time between two of them than computing takes. For cases played by `plays.training`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.exercises.ddp.training_plays import BACKWARD, BEGIN, END, GATES
from distlib.trace import Message

say = Sentences(__file__)
EPSILON = 1e-7  # seconds


@dataclass(frozen=True)
class Pass:
    """What one rank has done in one pass.

    Attributes:
        when, rank: "in step 2", and whose.
        gates: the moments of its marks and of its layers' gates, in their order. Of a gate that was passed twice, the
            first counts.
        messages: what the rank sent, finish included.
    """

    when: str
    rank: int
    gates: dict[int, float]
    messages: Sequence[Message]

    @property
    def backward(self) -> float:
        """The moment at which the backward pass begins."""
        return self.gates[BACKWARD]

    @property
    def layers(self) -> dict[int, float]:
        """The layers in the order in which backward passes their gates, and when: then their gradients are there."""
        return {k: moment for k, moment in self.gates.items() if k not in (BEGIN, BACKWARD, END)}

    @property
    def over(self) -> float:
        """The moment at which the last gradient is there."""
        return max(self.layers.values(), default=self.backward)

    @property
    def later(self) -> list[Message]:
        """The messages since backward began."""
        return [message for message in self.messages if message.start >= self.backward]


def pass_of(seen: Seen, number: int, when: str, rank: int) -> Pass:
    """Pass `number` of a rank; they are counted from 1."""
    gates: dict[int, float] = {}
    for k, moment in seen.played[rank].gates:
        if k // GATES == number:
            gates.setdefault(k % GATES, moment)
    messages = [m for m in seen.trace if m.src == rank and gates[BEGIN] <= m.start < gates[END]]
    return Pass(when, rank, gates, messages)


def in_order(seen: Seen, number: int, when: str, rank: int, layers: Sequence[int]) -> Remark | None:
    """The gates of pass `number` must be passed once, in their order. `layers`: as forward uses them; empty if nothing
    goes backward.

    A layer's gate may be left out: nothing below it is trained.
    """
    found = [k % GATES for k, _ in seen.played[rank].gates if k // GATES == number]
    expected = [BEGIN, *([BACKWARD, *reversed(layers)] if layers else []), END]
    rest = iter(expected)
    if all(k in rest for k in found) and {BEGIN, END} <= set(found):
        return None
    twice = next((k for k in layers if found.count(k) > 1), None)
    if twice is None:
        return say.remark("not_in_order", when=when, rank=rank)
    return say.remark("passed_twice", when=when, rank=rank, layer=twice, times=found.count(twice))


def outside(seen: Seen, passes: int, rank: int) -> Remark | None:
    """After the construction a rank sends nothing but in its passes. `passes`: how many."""
    of_each = [pass_of(seen, number, "", rank).gates for number in range(1, passes + 1)]
    built = min((moment for k, moment in seen.played[rank].gates if k == END), default=0.0)
    sent = [message.start for message in seen.trace if message.src == rank and message.start >= built]
    late = [start for start in sent if not any(gates[BEGIN] <= start < gates[END] for gates in of_each)]
    return say.remark("sent_outside", rank=rank, messages=count(len(late), "message")) if late else None


def computes_only(each: Pass, seconds: float, cause: str) -> Remark | None:
    """Backward must not wait for messages. `seconds`: what computing the gradients of a layer takes."""
    for (layer, before), (earlier, after) in itertools.pairwise(each.layers.items()):
        if after - before > seconds + EPSILON:
            layers = {"layer": layer, "earlier": earlier, "took": ms(after - before), "computing": ms(seconds)}
            return say.remark("waits", when=each.when, rank=each.rank, **layers, cause=cause)
    return None


def hidden_share(passes: Sequence[Pass]) -> float:
    """Of the seconds for which a rank's messages are under way since backward began, the share in which it computes.

    Returns:
        0 … 1; 1 if there are no messages.
    """
    under_way = sum(m.end - m.start for each in passes for m in each.later)
    hidden = sum(max(0.0, min(m.end, each.over) - m.start) for each in passes for m in each.later)
    return hidden / under_way if under_way else 1.0


def ms(seconds: float) -> str:
    """A time in milliseconds: "16.8 ms"."""
    return f"{seconds * 1e3:.3g} ms"
