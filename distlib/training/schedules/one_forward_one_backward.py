"""1F1B: a backward pass as soon as there is one to do, so that a microbatch is forgotten early.

    rank 0   0F0  0F1  0F2                 0B0  0F3  0B1       0B2       0B3
    rank 1        1F0  1F1       1B0  1F2  1B1  1F3  1B2       1B3
    rank 2             2F0  2B0  2F1  2B1  2F2  2B2  2F3  2B3
             warmup              steady                        cooldown

p stages, m microbatches, t_F and t_B for a forward and a backward pass, equal on all stages:

    time              (m + p − 1)·(t_F + t_B), as GPipe
    bubble            (p−1)/(m+p−1) of the total
    live microbatches min(m, p − stage): memory does not grow with the number of microbatches

Where messages take time, a rank waits after its warmup for the answer to what it has sent. With a longer warmup, of
(1 + k)(p − stage − 1) forward passes, it has something to do meanwhile, and keeps more: min(m, (1 + k)(p − stage − 1)
+ 1) microbatches. This is "eager" 1F1B: Y. Zhuang et al., "On Optimizing the Communication of Model Parallelism",
arXiv:2211.05322 (2022).

Sources: D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, section 3.2;
in the form with one update per batch: "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021 (PipeDream-Flush).
"""

from __future__ import annotations

from distlib.training.schedules.actions import BACKWARD, FORWARD, Action, check_sizes


def one_forward_one_backward(num_stages: int, num_microbatches: int, eager: int = 0) -> list[list[Action]]:
    """Enough forward passes to fill the stages behind, then one forward, one backward in turn. One stage per rank.

    Args:
        num_stages: the number of stages, and of ranks.
        num_microbatches: of a training step.
        eager: how many more forward passes the warmup has for each stage behind; see the module.

    Raises:
        ValueError: a size is not an integer of at least 1, or `eager` is not one of at least 0.
    """
    check_sizes(num_stages=num_stages, num_microbatches=num_microbatches)
    if type(eager) is not int or eager < 0:
        raise ValueError(f"expected eager to be an integer of at least 0, got eager={eager!r}")
    warmups = [(1 + eager) * (num_stages - stage - 1) for stage in range(num_stages)]
    return [_of_stage(stage, num_microbatches, warmup) for stage, warmup in enumerate(warmups)]


def _of_stage(stage: int, num_microbatches: int, warmup: int) -> list[Action]:
    forwards = [Action(stage, FORWARD, microbatch) for microbatch in range(num_microbatches)]
    backwards = [Action(stage, BACKWARD, microbatch) for microbatch in range(num_microbatches)]
    return in_turn(forwards, backwards, warmup)


def in_turn(forwards: list[Action], backwards: list[Action], warmup: int) -> list[Action]:
    """The first `warmup` of the forward passes; then one forward, one backward; then the backward passes left over."""
    actions, waiting = forwards[:warmup], iter(backwards)
    for forward in forwards[warmup:]:
        actions += [forward, next(waiting)]
    return [*actions, *waiting]
