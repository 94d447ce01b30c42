"""ZB-V: two stages per rank, placed like a V, and backward passes in halves. Hardly a bubble, and no more is kept.

    rank               0  1  2  3
    stages going down  0  1  2  3      a microbatch goes down to the last rank
    stages going up    7  6  5  4      and up again: its loss is on rank 0

p ranks, m ≥ 2p − 1 microbatches, t for each of F, I and W of a stage, half as large as with one stage per rank:

    time              (6m + p − 1)·t
    bubble            (p−1)/(6m+p−1) of the total
    live microbatches at most 2p of the half stages on every rank, also up to W: as much as p whole ones, which is the
                      most that 1F1B has on any rank
    messages          2m·2(p−1): twice as many as 1F1B, since each microbatch goes forth and back. The two stages in
                      the tip of the V share a rank, and send nothing to each other

Source: P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241 (2023), section 6. torch has the same order
as torch.distributed.pipelining.ScheduleZBVZeroBubble.
"""

from __future__ import annotations

from collections import Counter

from distlib.training.schedules.actions import FORWARD, INPUT, WEIGHT, Action, check_sizes


def zero_bubble_v(num_ranks: int, num_microbatches: int) -> list[list[Action]]:
    """ZB-V: rank r has the stages r and 2·`num_ranks` − 1 − r, and each backward pass is in two halves.

    With fewer than 2·`num_ranks` − 1 microbatches it is the schedule for so many, without those that do not exist.

    Raises:
        ValueError: a size is not an integer of at least 1.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    rows = [_of_rank(rank, num_ranks, max(num_microbatches, 2 * num_ranks - 1)) for rank in range(num_ranks)]
    return [[action for action in row if action.microbatch < num_microbatches] for row in rows]


def _of_rank(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """What a rank does, as kinds of passes through its two stages. Each kind takes the microbatches in order."""
    down, up = rank, 2 * num_ranks - 1 - rank
    behind = num_ranks - rank  # ranks from this one to the tip of the V
    whole = [(FORWARD, down), (INPUT, down), (WEIGHT, down), (FORWARD, up), (INPUT, up), (WEIGHT, up)]
    passes = [
        *[(FORWARD, down)] * (2 * behind - 1),  # until the first microbatch comes back up
        *[(FORWARD, up), (FORWARD, down)] * rank,
        *[(FORWARD, up), (INPUT, up), (WEIGHT, up)] * behind,  # until the first gradient comes back down
        *whole * (num_microbatches - num_ranks),
        *[(INPUT, down), (INPUT, up)] * rank,
        *[(INPUT, down), (WEIGHT, down)] * behind,
        *[(WEIGHT, up)] * rank,
        *[(WEIGHT, down)] * rank,
    ]
    done: Counter[tuple[str, int]] = Counter()
    actions = []
    for kind, stage in passes:
        actions.append(Action(stage, kind, done[kind, stage]))
        done[kind, stage] += 1
    return [action for action in actions if action.microbatch < num_microbatches]
