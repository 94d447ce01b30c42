"""Players of memory golf: one draws every swing by chance, one counts bytes and messages before each swing."""

from __future__ import annotations

import random
from collections.abc import Iterator

from distlib.draw.players.golf_board import GolfBoard
from distlib.training.zero.memory_golf import (
    MOST_PASSES,
    Hole,
    StepChoice,
    Swing,
    account_of_step,
    play_choice,
    unit_sizes,
)


def points_by_chance(hole: Hole, rng: random.Random, swings: int = 60) -> int:
    """Of the best of so many swings for which every slider is set by chance; what the hole refuses is one of them."""
    board, best = GolfBoard(hole), 0
    for _ in range(swings):
        choice = StepChoice(**{name: rng.choice(slider.options)[1] for name, slider in board.sliders.items()})
        if choice.microbatches * len(unit_sizes(hole, choice)) <= MOST_PASSES and _fits(hole, choice):
            best = max(best, play_choice(hole, choice).points)
    return best


def _fits(hole: Hole, choice: StepChoice) -> bool:
    """Known without the simulation, which takes longer."""
    return max(sample.total for sample in account_of_step(hole, choice)) <= hole.limit


def swing_with_reason(hole: Hole) -> list[Swing]:
    """What lesson 11 teaches, in some 15 swings a hole, each of which is looked at before the next.

    A unit is one block, gathered ahead and freed. For each stage that is worth a try, microbatches are doubled, since
    fewer activations are alive then, until the step takes longer; and as many blocks are checkpointed as the last swing
    has lacked room for.
    """
    found = list[Swing]()
    for stage in (3, 1):
        best = float("inf")
        for microbatches in (1, 2, 4, 8, 16, 32, 64):
            units = -(-microbatches * hole.blocks // MOST_PASSES)
            tried = list(_fitting(hole, StepChoice(stage, units, hole.blocks, microbatches)))
            found += tried
            if tried[0].missing > 0:
                continue  # it does not fit with all blocks checkpointed: fewer tokens at a time
            if tried[-1].seconds > best:
                break
            best = tried[-1].seconds
    return found


def _fitting(hole: Hole, choice: StepChoice) -> Iterator[Swing]:
    """With all blocks checkpointed, and then with as many fewer as there is room for."""
    first = play_choice(hole, choice)
    yield first
    tokens = hole.tokens // choice.microbatches
    of_a_block = (hole.block_activations - 2) * tokens * hole.features
    spare = int(-first.missing // of_a_block)
    if spare > 0:  # the last block is whole anyway, while it is computed again
        fewer = max(0, hole.blocks - spare - 1)
        swing = play_choice(hole, StepChoice(choice.stage, choice.blocks_per_unit, fewer, choice.microbatches))
        if swing.missing > 0:
            yield swing
            fewer += 1
            swing = play_choice(hole, StepChoice(choice.stage, choice.blocks_per_unit, fewer, choice.microbatches))
        yield swing
