"""All games: each is a file of this package whose name ends with `_game.py`, and makes one, `GAME`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from distlib.games.course_game import CourseGame


@cache
def all_games() -> dict[str, CourseGame[Any]]:
    """By name, in the order of their lessons."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("*_game.py") if path.stem != "course_game")
    games: list[CourseGame[Any]] = [import_module(f"distlib.games.{name}").GAME for name in files]
    return {game.name: game for game in sorted(games, key=lambda game: game.lesson)}


def game_of(result: object) -> CourseGame[Any]:
    """The game that gives such results.

    Raises:
        TypeError: none does.
    """
    for game in all_games().values():
        if isinstance(result, game.result):
            return game
    raise TypeError(f"{type(result).__name__} is not a play of a game")
