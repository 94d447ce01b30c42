"""Interleaved 1F1B: a rank has v stages that do not follow each other, so the pipeline fills v times as fast.

    p = 2 ranks, v = 2      stage 0  rank 0      microbatches go p at a time through the first stage of every rank,
                            stage 1  rank 1      then through the second of every rank, and so on
                            stage 2  rank 0
                            stage 3  rank 1      stage s lives on rank s mod p

p ranks, v stages on each, m microbatches, all stages equal:

    bubble            (p−1)/(v·m+p−1) of the total, where m is a multiple of p
    messages          v times as many: each microbatch goes around v times
    live              rank r keeps at most 2(p−r−1) + (v−1)·p + 1 microbatches of one stage (where there are that many);
                      one takes 1/v of the memory that a microbatch of 1F1B takes

Where m is not a multiple of p, this is the schedule for the next multiple, without the microbatches that do not exist.
What is left can still be executed: an action is only left out together with everything that waits for it.

Source: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021,
section 2.2.2.
"""

from __future__ import annotations

from distlib.training.schedules.actions import BACKWARD, FORWARD, Action, check_sizes
from distlib.training.schedules.one_forward_one_backward import in_turn


def interleaved_1f1b(num_ranks: int, num_microbatches: int, stages_per_rank: int = 2) -> list[list[Action]]:
    """1F1B with several stages on each rank; stage s lives on rank s mod `num_ranks`.

    Raises:
        ValueError: a size is not an integer of at least 1.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches, stages_per_rank=stages_per_rank)
    rows = [_of_rank(rank, num_ranks, num_microbatches, stages_per_rank) for rank in range(num_ranks)]
    return [[action for action in row if action.microbatch < num_microbatches] for row in rows]


def _of_rank(rank: int, num_ranks: int, num_microbatches: int, stages_per_rank: int) -> list[Action]:
    """The actions of one rank, with microbatches up to the next multiple of the number of ranks."""
    stages = range(rank, num_ranks * stages_per_rank, num_ranks)
    forwards, backwards = [], []
    for first in range(0, num_microbatches, num_ranks):
        group = range(first, first + num_ranks)
        forwards += [Action(stage, FORWARD, microbatch) for stage in stages for microbatch in group]
        backwards += [Action(stage, BACKWARD, microbatch) for stage in reversed(stages) for microbatch in group]
    # A microbatch must reach the last stage, and the answer to it must come back, before this rank has a backward pass.
    warmup = 2 * (num_ranks - rank - 1) + (stages_per_rank - 1) * num_ranks
    return in_turn(forwards, backwards, warmup)
