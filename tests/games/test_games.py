"""Each game of the course, as the board has it: what is written of a play gives the same play again."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distlib.draw.players.still import still_svg
from distlib.games.course_game import CourseGame
from distlib.games.game_list import all_games, game_of
from distlib.games.server_race import race
from distlib.training.schedules.puzzle import fill
from distlib.training.strategy.cluster_game import lay_out
from distlib.training.zero.memory_golf import swing

GAMES = list(all_games().values())
LEVELS = [(game, level) for game in GAMES for level in game.levels]
IDS = [f"{game.name} {level}" for game, level in LEVELS]

PLAYS = {
    "without a bound": lambda: race(6.4, 2, bound=math.inf),
    "with a backup": lambda: race(4.8, 2, backups=1),
    "rows": lambda: fill(1, "rank 0  F0 F1 .. B0 B1\nrank 1  .. 1F0 B0 F1 B1"),
    "stage 3": lambda: swing(1, stage=3, blocks_per_unit=2, checkpointed=24),
    "unequal layers": lambda: lay_out(5, pp=2, tp=2, microbatches=16, layers=(6, 3)),
    "in another order": lambda: lay_out(2, tp=4, pp=2, order="tp-dp-pp", microbatches=8, recompute="full"),
}


def test_the_games_stand_in_the_order_of_their_lessons() -> None:
    assert list(all_games()) == ["server", "grid", "golf", "layout"]
    lessons = Path(__file__).parents[2] / "course"
    assert all((lessons / f"{game.lesson}.py").exists() for game in GAMES)


@pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
def test_what_is_written_gives_the_same_play(play: Callable[[], Any]) -> None:
    result = play()
    game = game_of(result)
    level, choices = game.written(result)
    again = game.play(level, json.loads(json.dumps(choices)))
    assert game.score(again) == game.score(result) is not None
    assert game.written(again) == (level, choices)
    assert still_svg(game.scene(again)) == still_svg(game.scene(result))


@pytest.mark.parametrize(("game", "level"), LEVELS, ids=IDS)
def test_the_authors_record_is_at_least_par(game: CourseGame[Any], level: int) -> None:
    played = game.play(level, json.loads(json.dumps(game.record(level))))
    score = game.score(played)
    assert score is not None and game.in_order(score) <= game.in_order(game.par(level))
    assert f"Level {level}" in game.scene(played).title or f"Hole {level}" in game.scene(played).title


def test_par_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pars = [game.par(level) for game, level in LEVELS]
    for module in ("server_game.race", "golf_game.swing", "grid_game.fill", "layout_game.lay_out"):
        monkeypatch.setattr(f"distlib.games.{module}", None)
    assert [game.par(level) for game, level in LEVELS] == pars


def test_what_does_not_fit_or_never_arrives_has_no_score() -> None:
    for result in (swing(1, stage=0), lay_out(2, tp=8), race(0.001, 8, bound=math.inf)):
        assert game_of(result).score(result) is None


def test_only_results_of_games_are_plays() -> None:
    with pytest.raises(TypeError, match="int is not a play of a game"):
        game_of(3)
