"""How many microbatches a rank keeps at the same time: what a forward pass leaves behind stays until it is used.

    rank 0 of 1F1B, p = 3    0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3
    kept                      1   2   3   3   3   3   2   1        at most 3

Between F and B (or I) a rank keeps the activations of a microbatch. Between I and W it keeps part of them: the inputs
of the layers that have weights, and the gradients of their outputs.
"""

from __future__ import annotations

from distlib.training.schedules.actions import BACKWARD, FORWARD, INPUT, WEIGHT, Schedule, check_actions


def most_live(schedule: Schedule, up_to_weight: bool = False) -> list[int]:
    """By rank, the most microbatches that it keeps at the same time. Where it has several stages, each counts.

    Args:
        schedule: one that can be executed.
        up_to_weight: whether a microbatch also counts from the end of I to the end of W.
    """
    check_actions("most_live", schedule)
    ends = (BACKWARD, WEIGHT if up_to_weight else INPUT)
    peaks = []
    for actions in schedule:
        live = peak = 0
        for action in actions:
            live += action.kind == FORWARD
            peak = max(peak, live)
            live -= action.kind in ends
        peaks.append(peak)
    return peaks
