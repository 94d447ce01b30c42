"""Questions about pipelines: schedules, their bubbles, what they keep and what they send."""

from __future__ import annotations

import math
import random

from distlib.exam.exam_question import Asked, asks_about
from distlib.training.schedules import (
    Costs,
    gpipe,
    interleaved_1f1b,
    most_live,
    one_forward_one_backward,
    time_schedule,
)

_TOPIC = "pipelines"


def _sizes(draw: random.Random) -> tuple[int, int]:
    """Stages and microbatches, which are not equal."""
    stages = draw.choice((3, 4, 6, 8))
    return stages, stages * draw.choice((2, 3, 4)) - 1


@asks_about(_TOPIC)
def bubble_of_the_total(draw: random.Random) -> Asked:
    """(p − 1)/(m + p − 1)."""
    stages, micro = _sizes(draw)
    return Asked(
        f"GPipe with {stages} stages and {micro} microbatches; all stages take equally long. Which part of the "
        "total time do "
        "ranks wait, as a number from 0 to 1?",
        (stages - 1) / (micro + stages - 1),
        f"(p − 1)/(m + p − 1) = {stages - 1}/{micro + stages - 1}.",
        {"stages": stages, "micro": micro},
    )


@asks_about(_TOPIC)
def bubble_of_the_ideal(draw: random.Random) -> Asked:
    stages, micro = _sizes(draw)
    return Asked(
        f"1F1B with {stages} stages and {micro} microbatches; all stages take equally long. How long do ranks "
        "wait, relative to "
        "the time without a bubble?",
        (stages - 1) / micro,
        f"(p − 1)/m = {stages - 1}/{micro}.",
        {"stages": stages, "micro": micro},
    )


@asks_about(_TOPIC)
def seconds_of_gpipe(draw: random.Random) -> Asked:
    """All forward passes, then all backward passes."""
    stages, micro = _sizes(draw)
    forward = draw.randint(2, 9)
    costs = Costs(forward=float(forward), backward=2.0 * forward)
    return Asked(
        f"GPipe with {stages} stages and {micro} microbatches. A forward pass of a stage takes {forward} ms, a "
        "backward pass "
        f"{2 * forward} ms, messages no time. How many ms does a step take?",
        round(time_schedule(gpipe(stages, micro), costs).seconds),
        f"(m + p − 1) · {3 * forward} ms.",
        {"stages": stages, "micro": micro, "forward": forward},
        "ms",
    )


@asks_about(_TOPIC)
def microbatches_that_are_kept(draw: random.Random) -> Asked:
    """What 1F1B keeps on a stage."""
    stages, micro = _sizes(draw)
    stage = draw.randint(0, stages - 1)
    return Asked(
        f"1F1B with {stages} stages and {micro} microbatches. Of how many microbatches does the rank of stage "
        f"{stage} (from 0) "
        "keep activations at the same time, at most?",
        most_live(one_forward_one_backward(stages, micro))[stage],
        f"min(m, p − {stage}).",
        {"stages": stages, "micro": micro, "stage": stage},
        "microbatches",
    )


@asks_about(_TOPIC)
def activations_of_gpipe_against_1f1b(draw: random.Random) -> Asked:
    """GPipe keeps all of them."""
    stages, micro = _sizes(draw)
    kept = [max(most_live(make(stages, micro))) for make in (gpipe, one_forward_one_backward)]
    return Asked(
        f"{stages} stages, {micro} microbatches. Of how many more microbatches does GPipe keep activations on "
        "its fullest rank "
        "than 1F1B on its fullest rank?",
        kept[0] - kept[1],
        f"{micro} against {kept[1]}.",
        {"stages": stages, "micro": micro},
        "microbatches",
    )


@asks_about(_TOPIC)
def bubble_of_interleaved_stages(draw: random.Random) -> Asked:
    """More, smaller stages per rank."""
    ranks, per_rank = draw.choice((2, 4)), draw.choice((2, 3))
    micro = ranks * draw.choice((2, 3, 4))
    timing = time_schedule(interleaved_1f1b(ranks, micro, per_rank), Costs(forward=1.0, backward=2.0))
    return Asked(
        f"Interleaved 1F1B on {ranks} ranks with {per_rank} stages each and {micro} microbatches; all stages "
        "take equally long, "
        "backward twice as long as forward. Which part of the total time do ranks wait, as a number from 0 to 1?",
        timing.bubble,
        f"(p − 1)/(v·m + p − 1) with p = {ranks}, v = {per_rank}, m = {micro}.",
        {"ranks": ranks, "micro": micro, "per_rank": per_rank},
    )


@asks_about(_TOPIC)
def microbatches_for_a_small_bubble(draw: random.Random) -> Asked:
    """How many are needed."""
    stages, percent = draw.choice((4, 5, 8, 16)), draw.choice((5, 10, 20))
    return Asked(
        f"GPipe with {stages} stages that take equally long. How many microbatches are needed at least for the "
        "bubble to be at "
        f"most {percent} % of the total time?",
        math.ceil((stages - 1) * (100 - percent) / percent - 1e-9),
        f"(p − 1)/(m + p − 1) ≤ {percent}/100.",
        {"stages": stages, "percent": percent},
        "microbatches",
    )


@asks_about(_TOPIC)
def messages_of_a_pipeline(draw: random.Random) -> Asked:
    """Activations there, gradients back."""
    stages, micro = _sizes(draw)
    return Asked(
        f"How many messages do {stages} stages on as many ranks send each other in a step with {micro} microbatches?",
        2 * (stages - 1) * micro,
        f"Over each of {stages - 1} boundaries {micro} activations and {micro} gradients.",
        {"stages": stages, "micro": micro},
        "messages",
    )


@asks_about(_TOPIC)
def share_of_a_naive_pipeline(draw: random.Random) -> Asked:
    """One rank computes, the others wait."""
    stages = draw.randint(3, 12)
    return Asked(
        f"A model is cut into {stages} equal stages on as many ranks, and each batch passes through them whole. "
        "Which part of the "
        "total time does a rank compute, as a number from 0 to 1?",
        1 / stages,
        "One rank at a time.",
        {"stages": stages},
    )


@asks_about(_TOPIC)
def slowest_stage(draw: random.Random) -> Asked:
    costs = [draw.randint(2, 5) for _ in range(3)] + [draw.randint(6, 9)]
    draw.shuffle(costs)
    micro = draw.choice((6, 8, 10))
    forwards = [float(cost) for cost in costs]
    timing = time_schedule(gpipe(4, micro), Costs(forward=forwards, backward=forwards))
    return Asked(
        f"GPipe with {micro} microbatches and 4 stages, whose passes take {', '.join(map(str, costs))} ms, "
        "forward and backward "
        "alike. Messages take no time. How many ms does a step take?",
        round(timing.seconds),
        f"The slowest stage sets the pace: 2 · ({sum(costs)} + {micro - 1} · {max(costs)}).",
        {"costs": costs, "micro": micro},
        "ms",
    )
