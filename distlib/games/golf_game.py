"""The game of lesson 11 on the board: milliseconds of a step that fits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from distlib.draw.players.golf_scene import golf_scene
from distlib.draw.players.scene import Scene
from distlib.games.choice_values import check_names, whole, yes_or_no
from distlib.games.course_game import ChoiceError, Choices, CourseGame
from distlib.training.zero.memory_golf import HOLES, MOST_PASSES, StepChoice, Swing, hole_of, swing


class GolfGame(CourseGame[Swing]):
    """{"stage": 3, "blocks_per_unit": 1, "checkpointed": 0, "microbatches": 1, "prefetch": true, "reshard": true}"""

    name, title, lesson = "golf", "Memory golf", "11_zero"
    unit, less_is_better, digits = "ms", True, 1
    result = Swing
    levels = {hole.number: hole.name for hole in HOLES}

    def play(self, level: int, choices: Choices) -> Swing:
        check_names(choices, tuple(StepChoice.__dataclass_fields__))
        hole = hole_of(level)
        per_unit = whole(choices, "blocks_per_unit", 1, hole.blocks)
        microbatches = whole(choices, "microbatches", 1, hole.tokens)
        passes = microbatches * -(-hole.blocks // per_unit)
        if passes > MOST_PASSES:
            raise ChoiceError(f"microbatches × units: at most {MOST_PASSES:,} are replayed, got {passes:,}")
        return swing(
            level,
            stage=whole(choices, "stage", 0, 3),
            blocks_per_unit=per_unit,
            checkpointed=whole(choices, "checkpointed", 0, hole.blocks),
            microbatches=microbatches,
            prefetch=yes_or_no(choices, "prefetch"),
            reshard=yes_or_no(choices, "reshard"),
        )

    def written(self, result: Swing) -> tuple[int, dict[str, Any]]:
        return result.hole.number, {
            name: value if isinstance(value, bool) else int(value) for name, value in asdict(result.choice).items()
        }

    def measured(self, result: Swing) -> float | None:
        """Milliseconds; None above the limit."""
        return None if result.missing > 0 else 1e3 * result.seconds

    def scene(self, result: Swing) -> Scene:
        """What is alive in the course of the step, and its time."""
        return golf_scene(result)

    def par(self, level: int) -> float:
        """The milliseconds of par."""
        return round(1e3 * hole_of(level).par_seconds, self.digits)

    def record(self, level: int) -> dict[str, Any]:
        """Par with as few blocks checkpointed as the limit allows."""
        return {**asdict(hole_of(level).par), "checkpointed": _FEWEST[level]}


_FEWEST = {1: 9, 2: 14, 3: 21, 4: 21, 5: 35}


GAME = GolfGame()
