"""Lay out the cluster: par is what is chosen, other layouts get what they deserve, and par can be beaten once."""

from dataclasses import replace

import pytest

from distlib.training.strategy import all_layouts, predict_step
from distlib.training.strategy.cluster_game import (
    LEVELS,
    ClusterLevel,
    cluster_level,
    lay_out,
    play_layout,
    score_card,
)

EVERY_LEVEL = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


@EVERY_LEVEL
def test_par_fits_and_gives_ten_points(level: ClusterLevel) -> None:
    played = play_layout(level, level.par)
    assert played.missing <= 0
    assert played.points == 10
    assert str(played).endswith("10 points, par")
    assert f"Par: {level.par_seconds * 1e3:.0f} ms." in str(level)


@EVERY_LEVEL
def test_one_way_alone_is_not_par(level: ClusterLevel) -> None:
    """Only copies, only a pipeline, only ranks that share layers: as far as the level allows it."""
    ranks = level.cluster.world_size
    alone = [{"dp": ranks}, {"tp": ranks}] + [{"pp": ranks, "microbatches": level.batch}] * (
        level.shape.layers >= ranks
    )
    points = [lay_out(level.number, **sizes).points for sizes in alone]
    assert min(points) < 10
    assert max(points) <= 10


def test_each_level_has_another_answer() -> None:
    answers = {(level.par.dp, level.par.pp, level.par.tp, level.par.stage) for level in LEVELS}
    assert len(answers) == len(LEVELS)


@pytest.mark.slow
@EVERY_LEVEL
def test_no_even_layout_beats_par(level: ClusterLevel) -> None:
    """Of those that fit, all whose formula comes near to par are played."""
    for layout in all_layouts(level.shape, level.cluster, level.batch):
        found = predict_step(level.shape, level.device, level.cluster, level.batch, layout)
        if found.nbytes <= level.device.memory and found.seconds < 1.2 * level.par_seconds:
            assert play_layout(level, layout).points <= 10, layout


def test_unequal_machines_want_unequal_stages() -> None:
    level = LEVELS[-1]
    even = play_layout(level, level.par)
    uneven = lay_out(5, pp=2, tp=2, microbatches=16, layers=(6, 3))
    assert even.points == 10 < uneven.points
    assert "better than par" in str(uneven)


def test_what_does_not_fit_gets_no_points() -> None:
    played = lay_out(1, dp=4)
    assert played.missing > 0
    assert played.points == 0
    assert f"{played.missing / 1e9:.2f} GB too many" in str(played)


def test_tp_across_nodes_costs_points_and_is_seen_between_them() -> None:
    level = cluster_level(4)
    across = play_layout(level, replace(level.par, axes=("tp", "pp", "dp")))
    assert across.points < 10
    assert across.played.crossing["tp"] > 0 == play_layout(level, level.par).played.crossing["tp"]


def test_a_step_is_the_same_every_time() -> None:
    first, second = (lay_out(2, dp=2, tp=4, stage=1) for _ in range(2))
    assert first == second
    assert str(first) == str(second)


def test_a_score_card_has_the_best_attempt_at_each_level() -> None:
    card = score_card([lay_out(1, dp=4), play_layout(LEVELS[0], LEVELS[0].par)])
    assert "10 points; par is 50" in card
    assert card.count(" -\n") == 4


@pytest.mark.parametrize(
    ("number", "options", "words"),
    [
        (6, {}, "a level from 1 to 5, got 6"),
        (1, {"dp": 3}, "is 3 ranks, and the cluster has 4"),
        (1, {"dp": 4, "microbatches": 3}, "a batch of 8 sequences"),
        (1, {"dp": 4, "order": "dp-tp"}, "dp, pp and tp in some order"),
        (5, {"pp": 2, "tp": 2, "layers": (6, 4)}, "expected 9 layers over 2 stages, got 10 over 2"),
        (3, {"pp": 4, "recompute": "half"}, "none, attention, full"),
    ],
)
def test_what_cannot_be_played_is_refused(number: int, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lay_out(number, **options)  # type: ignore[arg-type]
