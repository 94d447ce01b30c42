"""The games as lessons call them: a play that counts is kept in the student's file, if it is the best of its level.

Only what the student has chosen is a play: a cell of a lesson that runs as it was given out plays for nobody. A play is
kept in work/ of a course, where a student works, or in the current folder where there is no course. In the course
itself, where authors work, nothing is kept.

    fill          lesson 09, `schedules.puzzle`
    lay_out       lesson 12, `strategy.cluster_game`; play_cluster: the same with sliders
    race          lesson 07b, `server_race`
    swing         lesson 11, `zero.memory_golf`; play_golf: the same with sliders

What the rules do not allow ends in one sentence, `NotPlayed`, without the lines of this package that have found it out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from distlib.games import server_race
from distlib.games.course_game import CourseGame
from distlib.games.game_list import game_of
from distlib.games.keep_here import keep_here
from distlib.games.my_games import BestPlay
from distlib.games.who_chose import BY_CELL, BY_WIDGET, is_given
from distlib.training.schedules import puzzle
from distlib.training.strategy import cluster_game
from distlib.training.zero import memory_golf

if TYPE_CHECKING:
    from distlib.draw.players.cluster_board import ClusterBoard
    from distlib.draw.players.golf_board import GolfBoard

__all__ = [
    "NotPlayed",
    "cluster_game",
    "fill",
    "keep_play",
    "keeping",
    "lay_out",
    "memory_golf",
    "play_cluster",
    "play_golf",
    "puzzle",
    "race",
    "swing",
]

Given = ParamSpec("Given")
Got = TypeVar("Got")


class NotPlayed(ValueError):
    """A choice that the rules do not allow. A notebook shows its sentence only."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the stack, which would be lines of this package."""
        return f"This can't be played: {self}".splitlines()


def keep_play(result: object, by: str) -> None:
    """Keep what a game gave, if it counts, where that is right. by: how it was chosen, see `who_chose`.

    Raises:
        TypeError: it is not a play of a game.
    """
    game = game_of(result)
    keep_here(lambda: _best_play(game, result, by))


def _best_play(game: CourseGame[Any], result: object, by: str) -> BestPlay | None:
    """What is kept of a play; None if it does not count."""
    score = game.score(result)
    if score is None:
        return None
    level, choices = game.written(result)
    return BestPlay(
        game.name,
        game.title,
        game.lesson,
        level,
        game.levels[level],
        score,
        game.unit,
        game.less_is_better,
        game.par(level),
        datetime.now(UTC).isoformat(timespec="seconds"),
        choices,
        by=by,
    )


def _or_not_played(play: Callable[Given, Got], *args: Given.args, **kwargs: Given.kwargs) -> Got:
    """Raises NotPlayed where the rules do not allow it."""
    try:
        return play(*args, **kwargs)
    except ValueError as error:
        raise NotPlayed(str(error)) from None


def keeping(play: Callable[Given, Got]) -> Callable[Given, Got]:
    """A function of a game that keeps what it gives, if the student has chosen it, and refuses in one sentence."""

    @wraps(play)
    def kept(*args: Given.args, **kwargs: Given.kwargs) -> Got:
        result = _or_not_played(play, *args, **kwargs)
        if not is_given(sys._getframe(1)):
            keep_play(result, BY_CELL)
        return result

    return kept


fill = keeping(puzzle.fill)
lay_out = keeping(cluster_game.lay_out)
race = keeping(server_race.race)
swing = keeping(memory_golf.swing)


def play_cluster(number: int) -> ClusterBoard:
    """As `distlib.draw.play_cluster`: sliders for a level of the cluster, from 1 on. Every move is kept as a play.

    Raises:
        ValueError: there is no such level.
    """
    from distlib.draw.players.cluster_board import ClusterBoard  # takes the widgets along

    return ClusterBoard(_or_not_played(cluster_game.cluster_level, number), partial(keep_play, by=BY_WIDGET))


def play_golf(number: int) -> GolfBoard:
    """As `distlib.draw.play_golf`: sliders for a hole of memory golf, from 1 on. Every swing is kept as a play.

    Raises:
        ValueError: there is no such hole.
    """
    from distlib.draw.players.golf_board import GolfBoard  # takes the widgets along

    return GolfBoard(_or_not_played(memory_golf.hole_of, number), partial(keep_play, by=BY_WIDGET))
