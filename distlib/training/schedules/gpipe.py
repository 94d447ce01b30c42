"""GPipe: all forward passes, then all backward passes, with every rank at work as soon as a microbatch reaches it.

    rank 0   0F0  0F1  0F2                      0B0  0B1  0B2
    rank 1        1F0  1F1  1F2       1B0  1B1  1B2
    rank 2             2F0  2F1  2F2  …

p stages, m microbatches, t_F and t_B for a forward and a backward pass, equal on all stages:

    time              (m + p − 1)·(t_F + t_B)
    bubble            (p−1)/(m+p−1) of the total; relative to the ideal time m·(t_F + t_B) it is (p−1)/m
    live microbatches m on every rank: memory grows with the number of microbatches

Here the backward passes run in the order of the forward passes. The other way round takes as long.

Source: Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019,
section 2.3; their K is p, their M is m.
"""

from __future__ import annotations

from distlib.training.schedules.actions import BACKWARD, FORWARD, Action, check_sizes


def gpipe(num_stages: int, num_microbatches: int) -> list[list[Action]]:
    """All forward passes, then all backward passes. One stage per rank.

    Raises:
        ValueError: a size is not an integer of at least 1.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return [
        [Action(stage, kind, microbatch) for kind in (FORWARD, BACKWARD) for microbatch in range(num_microbatches)]
        for stage in range(num_stages)
    ]
