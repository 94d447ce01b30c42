"""The game of lesson 09 on the board: points of a schedule."""

from __future__ import annotations

from typing import Any

from distlib.draw.players.pipeline_scene import pipeline_scene
from distlib.draw.players.scene import Scene
from distlib.games.choice_values import check_names, shown
from distlib.games.course_game import ChoiceError, Choices, CourseGame
from distlib.training.schedules.actions import Schedule
from distlib.training.schedules.puzzle import LEVELS, Attempt, fill, level_of

_LONGEST = 1_000  # characters of a row: ten times what the largest level needs


class GridGame(CourseGame[Attempt]):
    """{"rows": ["F0 F1 B0 B1", "F0 B0 F1 B1"]}, a text for each rank"""

    name, title, lesson = "grid", "Fill the grid", "09_pipeline"
    unit, less_is_better, digits = "points", False, 0
    result = Attempt
    levels = {level.number: level.name for level in LEVELS}

    def play(self, level: int, choices: Choices) -> Attempt:
        """Check and time the schedule."""
        check_names(choices, ("rows",))
        rows, ranks = choices["rows"], level_of(level).ranks
        if type(rows) is not list or len(rows) != ranks:
            raise ChoiceError(f"rows: expected a list of {ranks} texts, got {shown(rows)}")
        for row in rows:
            if type(row) is not str or len(row) > _LONGEST:
                raise ChoiceError(f"rows: expected texts of at most {_LONGEST:,} characters, got {shown(row)}")
        return fill(level, [row.split() for row in rows])

    def written(self, result: Attempt) -> tuple[int, dict[str, Any]]:
        """Its actions; waiting follows from them."""
        return result.level.number, {"rows": _as_rows(result.schedule)}

    def measured(self, result: Attempt) -> float | None:
        return result.points

    def scene(self, result: Attempt) -> Scene:
        """When each rank does what, and how many microbatches it keeps."""
        level = result.level
        return pipeline_scene(result.timing, f"Level {level.number}, {level.name}: {result.points} points", None)

    def par(self, level: int) -> float:
        """20 points, by the rules."""
        return 20

    def record(self, level: int) -> dict[str, Any]:
        """The schedule that is par, where none that is better is known."""
        if level in _RECORDS:
            return {"rows": list(_RECORDS[level])}
        known = level_of(level)
        return {"rows": _as_rows(known.par(known.ranks, known.microbatches))}


def _as_rows(schedule: Schedule) -> list[str]:
    """A text for each rank."""
    return [" ".join(f"{action.kind}{action.microbatch}" for action in row) for row in schedule]


_RECORDS = {1: ("F0 F1 B0 B1", "F0 B0 F1 B1")}

GAME = GridGame()
