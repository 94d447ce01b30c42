"""Memory golf: what its account holds is what the formulas say, and par can be reached."""

import random
from dataclasses import replace

import pytest

from distlib.games.golf_game import GAME
from distlib.training.zero.memory_golf import (
    HOLES,
    StepChoice,
    account_of_step,
    golf_points,
    hole_of,
    play_choice,
    score_card,
    swing,
)
from distlib.training.zero.stage_memory import memory_by_stage
from tests.tools.golf_players import points_by_chance, swing_with_reason

EVERY_HOLE = pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.name)


def as_arguments(choice: StepChoice) -> dict[str, int]:
    return vars(choice)


@EVERY_HOLE
def test_par_fits_and_gives_ten_points(hole) -> None:  # type: ignore[no-untyped-def]
    played = swing(hole.number, **as_arguments(hole.par))
    assert played.peak.total <= hole.limit
    assert played.points == 10
    assert str(played).endswith("10 points, par")


@EVERY_HOLE
def test_ddp_does_not_reach_par(hole) -> None:  # type: ignore[no-untyped-def]
    assert swing(hole.number).points < 10


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_account_begins_and_ends_with_what_the_stage_keeps(stage: int) -> None:
    hole = hole_of(1)
    samples = account_of_step(hole, StepChoice(stage, blocks_per_unit=4))
    kept = memory_by_stage(hole.blocks * hole.block_length, hole.ranks)[stage]
    assert samples[-1].bytes == {**kept, "communication buffers": 0, "activations": 0}
    assert samples[0].bytes == {**samples[-1].bytes, "gradients": 0}


@pytest.mark.parametrize(("prefetch", "whole"), [(True, 2), (False, 1)])
def test_units_are_whole_while_they_are_used(prefetch: bool, whole: int) -> None:
    hole = hole_of(1)
    samples = account_of_step(hole, StepChoice(3, blocks_per_unit=4, prefetch=prefetch))
    most = max(sample.bytes["parameters"] for sample in samples)
    assert most == samples[0].bytes["parameters"] + whole * 2 * 4 * hole.block_length


def test_microbatches_and_checkpoints_leave_fewer_activations() -> None:
    hole = hole_of(2)

    def activations(choice: StepChoice) -> int:
        return max(sample.bytes["activations"] for sample in account_of_step(hole, choice))

    plain = activations(StepChoice(1))
    assert plain == hole.blocks * hole.block_activations * hole.tokens * hole.features
    assert activations(StepChoice(1, microbatches=4)) == plain // 4
    inputs = 2 * hole.tokens * hole.features
    assert activations(StepChoice(1, checkpointed=hole.blocks)) == plain // hole.blocks + (hole.blocks - 1) * inputs


@EVERY_HOLE
def test_par_is_the_best_by_quarters_and_checkpointing_no_more_than_needed_beats_it(hole) -> None:  # type: ignore[no-untyped-def]
    """Of what is nearly as fast; which stage and how many microbatches is what a player has to find."""
    quarters = {hole.blocks * part // 4 for part in range(5)}
    assert hole.par.blocks_per_unit in (1, 2) and hole.par.checkpointed in quarters
    for checkpointed in quarters:
        other = play_choice(hole, replace(hole.par, checkpointed=checkpointed))
        assert other.missing > 0 or other.seconds >= hole.par_seconds
    record = swing(hole.number, **GAME.record(hole.number))
    assert record.points > 10 and str(record).endswith("better than par")
    assert play_choice(hole, replace(record.choice, checkpointed=record.choice.checkpointed - 1)).missing > 0


@pytest.mark.parametrize(
    ("factor", "points"), [(1.0, 10), (1.019, 9), (1.02, 9), (0.98, 11), (0.985, 10), (1.2, 0), (3.0, 0), (1.11, 4)]
)
def test_each_2_percent_of_time_is_a_point(factor: float, points: int) -> None:
    assert golf_points(0.19 * factor, 0.19) == points


def test_who_counts_before_each_swing_gets_45_points_of_50() -> None:
    played = [swing_with_reason(hole) for hole in HOLES]
    assert all(len(swings) <= 15 for swings in played)
    assert sum(max(each.points for each in swings) for swings in played) >= 45


@pytest.mark.parametrize("seed", range(3))
def test_60_swings_by_chance_at_each_hole_get_at_most_15_points_of_50(seed: int) -> None:
    rng = random.Random(seed)
    assert sum(points_by_chance(hole, rng) for hole in HOLES) <= 15


def test_a_score_card_has_the_best_swing_of_each_hole() -> None:
    card = score_card([swing(1), swing(1, **as_arguments(HOLES[0].par))])
    assert "10 points; par is 50" in card


@pytest.mark.parametrize(
    ("number", "arguments", "words"),
    [
        (6, {}, "expected a hole from 1 to 5, got 6"),
        (1, {"stage": 4}, "expected a stage from 0 to 3, got 4"),
        (1, {"blocks_per_unit": 25}, "blocks_per_unit: hole 1 has 24 blocks, got 25"),
        (1, {"checkpointed": 25}, "checkpointed: hole 1 has 24 blocks, got 25"),
        (1, {"microbatches": 3}, "microbatches: 4,096 tokens can't be split into 3 equal parts"),
        (1, {"microbatches": 0}, "microbatches"),
        (1, {"microbatches": 64}, "microbatches × units: at most 1,024 are played, got 1,536"),
    ],
)
def test_a_choice_that_makes_no_sense(number: int, arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        swing(number, **arguments)
