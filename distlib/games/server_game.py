"""The game of lesson 07b on the board: virtual seconds to the goal."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from distlib.draw.players.loss_scene import loss_scene
from distlib.draw.players.scene import Scene
from distlib.games.choice_values import check_names, number, whole
from distlib.games.course_game import Choices, CourseGame
from distlib.games.server_race import GOAL, MOST_RATE, RANKS, STEPS, ServerRace, race

_NOBODY_WAITS = "infinity"  # JSON has no number for it


class ServerGame(CourseGame[ServerRace]):
    """{"rate": 6.4, "servers": 2, "bound": "infinity", "backups": 0}"""

    name, title, lesson = "server", "Servers and workers", "07b_parameter_server"
    unit, less_is_better, digits = "s", True, 3
    result = ServerRace
    levels = {1: "mixed images", 2: "images by digit"}

    def play(self, level: int, choices: Choices) -> ServerRace:
        check_names(choices, ("rate", "servers", "bound", "backups"))
        rate, servers = number(choices, "rate", 0, MOST_RATE), whole(choices, "servers", 1, RANKS - 1)
        backups = whole(choices, "backups", 0, RANKS)
        unbound = choices["bound"] == _NOBODY_WAITS
        bound = math.inf if unbound else whole(choices, "bound", 0, STEPS)
        return race(rate, servers, level == 2, bound=bound, backups=backups)

    def written(self, result: ServerRace) -> tuple[int, dict[str, Any]]:
        """Its numbers; an infinite bound as a word."""
        bound = _NOBODY_WAITS if result.bound == math.inf else int(result.bound)
        backups, servers = int(result.backups), int(result.servers)
        return result.level, {"rate": float(result.rate), "servers": servers, "bound": bound, "backups": backups}

    def measured(self, result: ServerRace) -> float | None:
        """Virtual seconds; None if the goal was not reached."""
        return result.seconds if result.seconds < math.inf else None

    def scene(self, result: ServerRace) -> Scene:
        """The loss over virtual time."""
        wait = "nobody waits" if result.bound == math.inf else f"bound {result.bound:g}"
        backups = f", {result.backups} backups" if result.backups else ""
        chosen = f"rate {result.rate:g}, servers: {result.servers}, {wait}{backups}"
        return loss_scene(result.losses, GOAL, f"Level {result.level}, {self.levels[result.level]}: {result}", chosen)

    def par(self, level: int) -> float:
        """What the lesson shows: a backup worker; with images by digit, nobody waits."""
        return _par_seconds(level)

    def record(self, level: int) -> dict[str, Any]:
        return dict(_RECORDS[level])


_PAR: dict[int, dict[str, Any]] = {
    1: {"rate": 4.8, "servers": 2, "bound": 0, "backups": 1},
    2: {"rate": 3.2, "servers": 2, "bound": _NOBODY_WAITS, "backups": 0},
}
_RECORDS: dict[int, dict[str, Any]] = {
    1: {"rate": 6.4, "servers": 2, "bound": _NOBODY_WAITS, "backups": 0},
    2: {"rate": 3.2, "servers": 2, "bound": _NOBODY_WAITS, "backups": 0},
}

GAME = ServerGame()


@cache
def _par_seconds(level: int) -> float:
    """A race takes a second or two, and a board asks for par at each of its rows."""
    seconds = GAME.score(GAME.play(level, _PAR[level]))
    assert seconds is not None
    return seconds
