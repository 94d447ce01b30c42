"""The game of lesson 12 on the board: milliseconds of a step whose layout fits."""

from __future__ import annotations

from typing import Any

from distlib.draw.players.cluster_scene import cluster_scene
from distlib.draw.players.scene import Scene
from distlib.games.choice_values import check_names, one_of, shown, whole, whole_numbers
from distlib.games.course_game import ChoiceError, Choices, CourseGame
from distlib.training.strategy.cluster_game import LEVELS, LaidOut, cluster_level, lay_out
from distlib.training.strategy.parallel_layout import AXES, RECOMPUTE

_CHOICES = ("dp", "pp", "tp", "stage", "microbatches", "recompute", "order", "layers")


class LayoutGame(CourseGame[LaidOut]):
    """{"dp": 1, "pp": 2, "tp": 2, "stage": 0, "microbatches": 16, "recompute": "none", "order": "dp-pp-tp",
    "layers": [6, 3]}, or null for layers that take about as long as each other"""

    name, title, lesson = "layout", "Lay out the cluster", "12_hybrid"
    unit, less_is_better, digits = "ms", True, 1
    result = LaidOut
    levels = {level.number: level.name for level in LEVELS}

    def play(self, level: int, choices: Choices) -> LaidOut:
        check_names(choices, _CHOICES)
        asked = cluster_level(level)
        ranks, layers = asked.cluster.world_size, asked.shape.layers
        order = choices["order"]
        if type(order) is not str or sorted(order[:20].split("-")) != sorted(AXES):
            raise ChoiceError(f"order: expected dp, pp and tp in some order, such as dp-pp-tp, got {shown(order)}")
        spread = None if choices["layers"] is None else whole_numbers(choices, "layers", layers, layers)
        return lay_out(
            level,
            dp=whole(choices, "dp", 1, ranks),
            pp=whole(choices, "pp", 1, ranks),
            tp=whole(choices, "tp", 1, ranks),
            stage=whole(choices, "stage", 0, 3),
            microbatches=whole(choices, "microbatches", 1, asked.batch),
            recompute=one_of(choices, "recompute", RECOMPUTE),
            order=order,
            layers=spread,
        )

    def written(self, result: LaidOut) -> tuple[int, dict[str, Any]]:
        layout = result.layout
        numbers = {name: int(getattr(layout, name)) for name in ("dp", "pp", "tp", "stage", "microbatches")}
        layers = None if layout.layers is None else [int(each) for each in layout.layers]
        words = {"recompute": layout.recompute, "order": "-".join(layout.axes), "layers": layers}
        return result.level.number, {**numbers, **words}

    def measured(self, result: LaidOut) -> float | None:
        """Milliseconds; None if it does not fit."""
        return None if result.missing > 0 else 1e3 * result.played.seconds

    def scene(self, result: LaidOut) -> Scene:
        """Ranks, what travels between nodes, memory and time."""
        return cluster_scene(result)

    def par(self, level: int) -> float:
        return round(1e3 * cluster_level(level).par_seconds, self.digits)

    def record(self, level: int) -> dict[str, Any]:
        """Par, where none that is better is known."""
        layout = cluster_level(level).par
        known = {name: getattr(layout, name) for name in ("dp", "pp", "tp", "stage", "microbatches", "recompute")}
        return {**known, "order": "-".join(layout.axes), "layers": None, **_RECORDS.get(level, {})}


_RECORDS: dict[int, dict[str, Any]] = {
    2: {"dp": 4, "pp": 1, "tp": 2, "stage": 2, "microbatches": 1, "recompute": "attention", "order": "pp-tp-dp"},
    5: {"pp": 2, "tp": 2, "dp": 1, "microbatches": 16, "layers": [6, 3]},
}

GAME = LayoutGame()
