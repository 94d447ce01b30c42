"""One microbatch after another: a model over several ranks, and only one of them computes at a time.

    rank 0   0F0           0B0  0F1           0B1
    rank 1        1F0  1B0           1F1  1B1

p stages, m microbatches, t_F and t_B for a forward and a backward pass:

    time             m·p·(t_F + t_B): as long as on one rank
    bubble           (p−1)/p of the total
    live microbatches 1
"""

from __future__ import annotations

from distlib.training.schedules.actions import BACKWARD, FORWARD, Action, check_sizes


def naive(num_stages: int, num_microbatches: int) -> list[list[Action]]:
    """Each microbatch goes all the way forward and backward before the next one starts. One stage per rank.

    Raises:
        ValueError: a size is not an integer of at least 1.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return [
        [Action(stage, kind, microbatch) for microbatch in range(num_microbatches) for kind in (FORWARD, BACKWARD)]
        for stage in range(num_stages)
    ]
