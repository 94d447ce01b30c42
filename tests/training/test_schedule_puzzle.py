"""The puzzle: par gets 20 points, better gets more, and what is wrong with a grid is named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from distlib.training.schedules import (
    Costs,
    ScheduleError,
    gpipe,
    naive,
    one_forward_one_backward,
    schedule_grid,
    time_schedule,
    zero_bubble,
)
from distlib.training.schedules.puzzle import LEVELS, Level, fill, read_grid, score_card

BEST = "rank 0  F0 F1 .. .. B0 -- B1\nrank 1  .. F0 B0 F1 B1"  # by hand, for level 1


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: f"level {level.number}")
def test_par_is_20_points_and_fits_into_the_room(level: Level) -> None:
    par = level.par(level.ranks, level.microbatches)
    attempt = fill(level.number, par)
    assert (attempt.time_points, attempt.memory_points, attempt.points) == (10, 10, 20)
    assert str(attempt).endswith(f"level {level.number}: 20 points, par")
    assert str(level).startswith(f"Level {level.number}, {level.name}: {level.ranks} ranks")


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: f"level {level.number}")
def test_naive_is_worse_than_par_at_every_level(level: Level) -> None:
    attempt = fill(level.number, naive(level.ranks, level.microbatches))
    assert attempt.memory == level.ranks  # the least that there is
    assert attempt.points < 20


def test_levels_are_numbered_and_ask_for_more_and_more() -> None:
    assert [level.number for level in LEVELS] == list(range(1, len(LEVELS) + 1))
    assert [(level.par_seconds, level.par_memory) for level in LEVELS] == [
        (9, 4),
        (18, 12),
        (18, 6),
        (33, 10),
        (14, 9),
        (39, 16),
        (27, 16),
    ]
    assert not LEVELS[2].halves and LEVELS[4].halves


@pytest.mark.parametrize("number", [3, 4, 5, 7])
def test_what_was_par_before_does_not_reach_par_now(number: int) -> None:
    """1F1B is needed where there is no room for GPipe; cutting backward passes where time is short."""
    level = LEVELS[number - 1]
    sizes = level.ranks, level.microbatches
    if level.halves:
        assert fill(number, one_forward_one_backward(*sizes)).time_points < 10
    else:
        with pytest.raises(ScheduleError, match="has room for"):
            fill(number, gpipe(*sizes))


def test_on_slow_links_1f1b_is_far_from_par() -> None:
    attempt = fill(6, one_forward_one_backward(4, 8))
    assert (attempt.timing.seconds, attempt.time_points, attempt.memory_points) == (49, 7, 7)
    with pytest.raises(ScheduleError, match="room for 7 microbatches, and 0F7 would be number 8: put a B before it"):
        fill(6, gpipe(4, 8))


def test_zero_bubble_is_the_fastest_that_can_be() -> None:
    """The last rank cannot begin before p − 1 forward passes, and has 3m to do."""
    for level in LEVELS:
        if level.halves:
            assert level.par_seconds == level.ranks - 1 + 3 * level.microbatches


def test_level_1_can_be_done_below_par() -> None:
    attempt = fill(1, BEST)
    assert (attempt.timing.seconds, attempt.memory, attempt.points) == (9, 3, 23)
    assert "memory     3, par    4: 13 points" in str(attempt)


def test_nothing_is_faster_than_par_at_level_1() -> None:
    """Every order of the actions of both ranks."""
    words, seconds = ["F0", "F1", "B0", "B1"], []
    for rows in itertools.product(itertools.permutations(words), repeat=2):
        try:
            seconds.append(fill(1, rows).timing.seconds)
        except ScheduleError:
            continue
    assert min(seconds) == LEVELS[0].par_seconds


@pytest.mark.parametrize("schedule", [gpipe(3, 4), one_forward_one_backward(4, 8), zero_bubble(3, 4)])
def test_a_grid_that_was_printed_can_be_read(schedule: Any) -> None:
    assert read_grid(schedule_grid(time_schedule(schedule, Costs(1, 2)))) == schedule


def test_a_grid_may_be_text_words_or_actions() -> None:
    words = [["F0", "F1", "B0", "B1"], ["0F0".replace("0F", "1F"), "B0", "F1", "1B1"]]
    assert read_grid(words) == read_grid(BEST) == read_grid(read_grid(BEST))
    assert fill(1, words).points == fill(1, BEST).points == fill(1, read_grid(BEST)).points == 23


@pytest.mark.parametrize(
    ("number", "grid", "said"),
    [
        (1, "F0 ?? B0 B1\nF0 B0 F1 B1", r"rank 0, place 2: expected an action such as F0 .*, got '\?\?'"),
        (1, "F0 F1 B0 B1", "a line for each of 2 ranks, got 1"),
        (1, "F0 F1 B0\nF0 B0 F1 B1", "stage 0 and microbatch 1: expected 0F1, 0B1"),
        (1, "F0 B0 B1\nF0 B0 F1 B1", "rank 0: 0F1 is missing"),
        (1, "F0 F0 F1 B0 B1\nF0 B0 F1 B1", "0F0 stands twice"),
        (1, "F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2", "expected microbatches 0 to 1, got up to 2"),
        (1, "F0 F1 B0 B1\n0F0 B0 F1 B1", "rank 1 has stage 1 alone in this puzzle, got 0F0"),
        (1, "F0 F1 I0 W0 B1\nF0 B0 F1 B1", "expected F, B in level 1, got 0I0"),
        (1, "F0 B0 F1 B1\nF0 F1 B0 B1", "0B0 waits for 1B0, which rank 1 does only after 1F1"),
        (1, "", "a line for each of 2 ranks, got 0"),
    ],
)
def test_what_is_wrong_with_a_grid_is_named(number: int, grid: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        fill(number, grid)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a level from 1 to 7, got 8"):
        fill(8, "")


def test_the_card_has_the_best_of_each_level_and_the_sum() -> None:
    card = score_card([fill(1, BEST), fill(1, naive(2, 2)), fill(3, one_forward_one_backward(3, 4))])
    assert "1 GPipe              9       3      23" in card and "2 GPipe              -" in card
    assert card.endswith("43 points; par is 140")
