"""How much longer 1F1B takes with every further microbatch: the longest chain of actions that wait for each other.

The first microbatch goes through all stages and back: Σ c + 2·Σ L, for c = F + B of a stage and L of each boundary. The
chain of a longer step runs through a range of stages again and again, to the last one of them and back. As many
microbatches are under way there as it has stages, w, so one round takes it w microbatches further:

    F0 ─► F0 ─► F0        a range of 3 stages: in its first one, F3 waits for B0
                 │        round trip: Σ c + 2·Σ L of the range
    B0 ◄─ B0 ◄─ B0        per microbatch: (Σ c + 2·Σ L) / w
    └─► F3 ─► …

A range of one stage is the slowest stage at work, c per microbatch. A long range has more messages per microbatch,
up to 2(w−1)/w: the more stages, the more latency counts. A range that ends before the last stage runs only while the
stages behind are full. Until then, p − e − 1 times for its last stage e, a microbatch adds only one of its passes.

What is left out: activations and gradients that come to a stage at the same time share its port. Between equal stages
that is little. With stages of 1, 2, 2 and 1 layers, and messages as long as the forward pass of 2, a microbatch takes a
quarter more than this.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from distlib.training.strategy.stage_time import StageTime


def further_microbatches(stages: Sequence[StageTime], messages: Sequence[float], count: int) -> float:
    """Seconds that microbatches 2 to `count` add to the first one's.

    Args:
        stages: each with the seconds of its passes.
        messages: for each boundary between two stages, the seconds of a message.
        count: microbatches in all.
    """
    costs = list(accumulate((stage.seconds for stage in stages), initial=0.0))
    ways = list(accumulate(messages, initial=0.0))

    def round_trip(first: int, last: int) -> float:
        return costs[last + 1] - costs[first] + 2 * (ways[last] - ways[first])

    longest, starts = 0.0, [stage for stage in range(len(stages)) if _changes(stages, stage - 1, stage)]
    for last in (stage for stage in range(len(stages)) if _changes(stages, stage, stage + 1)):
        filling = min(count - 1, len(stages) - last - 1)
        before = filling * max(stages[last].forward, stages[last].backward)
        for first in (stage for stage in starts if stage <= last):
            rounds, rest = divmod(count - 1 - filling, last - first + 1)
            chain = before + rounds * round_trip(first, last)
            longest = max(longest, chain + (round_trip(last - rest + 1, last) if rest else 0.0))
    return longest


def _changes(stages: Sequence[StageTime], one: int, other: int) -> bool:
    """Whether a range may end between two neighbors: in a row of equal stages it ends at the row's ends."""
    return one < 0 or other == len(stages) or stages[one].seconds != stages[other].seconds
