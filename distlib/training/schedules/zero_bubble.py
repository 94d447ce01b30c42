"""ZB-H1: a backward pass is cut in two. The stage before waits for the first half only; the second fills the bubble.

    rank 0   0F0  0F1  0F2            0I0  0W0  0F3  0I1  0W1       0I2  0W2  0I3  0W3
    rank 1        1F0  1F1       1I0  1F2  1I1  1W0  1F3  1I2  1W1  1I3  1W2  1W3
    rank 2             2F0  2I0  2F1  2I1  2F2  2I2  2W0  2F3  2I3  2W1  2W2  2W3

Stage s is s microbatches late with its second halves. p stages, m microbatches, t for each of F, I and W:

    time              (2m + p − 1 + max(m, p))·t
    bubble            where m ≥ p: (p−1)/(3m+p−1) of the total. 1F1B has 3(p−1)/(3m+3(p−1)): three times as much waiting
    live microbatches min(m, p − stage) from F to I, as 1F1B. Up to W, where what the gradient of the weights needs is
                      kept as well: min(m, p) on every stage, which is the most that 1F1B has on any
    memory            where m ≥ p: (p − s)·M_B + s·M_W on stage s; a microbatch takes M_B from F to I, M_W from I to W.
                      With M_W ≤ M_B, as in the paper's transformer, no more than p·M_B, which is the most of 1F1B

Source: P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241 (2023), section 2; their B is I.
"""

from __future__ import annotations

from distlib.training.schedules.actions import FORWARD, INPUT, WEIGHT, Action, check_sizes


def zero_bubble(num_stages: int, num_microbatches: int) -> list[list[Action]]:
    """1F1B with each backward pass in two halves (ZB-H1). One stage per rank.

    Raises:
        ValueError: a size is not an integer of at least 1.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    return [_of_stage(stage, num_stages, num_microbatches) for stage in range(num_stages)]


def _of_stage(stage: int, num_stages: int, num_microbatches: int) -> list[Action]:
    microbatches = range(num_microbatches)
    warmup = num_stages - stage
    actions = [Action(stage, FORWARD, microbatch) for microbatch in microbatches[:warmup]]
    for microbatch in microbatches:
        actions.append(Action(stage, INPUT, microbatch))
        if microbatch >= stage:
            actions.append(Action(stage, WEIGHT, microbatch - stage))
        if microbatch + warmup < num_microbatches:
            actions.append(Action(stage, FORWARD, microbatch + warmup))
    late = microbatches[max(0, num_microbatches - stage) :]
    return actions + [Action(stage, WEIGHT, microbatch) for microbatch in late]
