"""The game of lesson 11 on the board: milliseconds of a step that fits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from distlib.draw.players.memory_scene import memory_scene
from distlib.draw.players.scene import Scene
from distlib.games.choice_values import check_names, whole, yes_or_no
from distlib.games.course_game import ChoiceError, Choices, CourseGame
from distlib.training.zero.memory_golf import HOLES, StepChoice, Swing, hole_of, swing

_MOST_PASSES = 1_024  # of units in a step: a replay of them takes some seconds, and par has at most 384


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
        if passes > _MOST_PASSES:
            raise ChoiceError(f"microbatches × units: at most {_MOST_PASSES:,} are replayed, got {passes:,}")
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
        return None if result.peak.total > result.hole.limit else 1e3 * result.seconds

    def scene(self, result: Swing) -> Scene:
        """What is alive in the course of the step."""
        hole, choice = result.hole, result.choice
        title = f"Hole {hole.number}, {hole.name}: {1e3 * result.seconds:,.1f} ms"
        flags = [name for name in ("prefetch", "reshard") if choice.stage == 3 and getattr(choice, name)]
        chosen = ", ".join(
            [
                f"stage {choice.stage}",
                f"blocks per unit: {choice.blocks_per_unit}",
                f"checkpointed: {choice.checkpointed}",
                f"microbatches: {choice.microbatches}",
                *flags,
            ]
        )
        return memory_scene([dict(sample.bytes) for sample in result.samples], hole.limit, title, chosen)

    def par(self, level: int) -> float:
        """The milliseconds of par."""
        return round(1e3 * hole_of(level).par_seconds, self.digits)

    def record(self, level: int) -> dict[str, Any]:
        """Par: the best choice that is known."""
        return asdict(hole_of(level).par)


GAME = GolfGame()
