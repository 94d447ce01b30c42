"""The scene of a training against a goal: the loss over virtual time, on a scale of powers of ten.

2.3 │▔╲
    │   ╲__
0.1 │-------╲●---- goal
    └────────────── virtual seconds
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, write
from distlib.draw.style import BLUE, BODY, SMALL, TITLE, WIDTH

_LEFT, _RIGHT, _TOP, _HIGH = 60.0, 60.0, 66.0, 180.0  # CSS pixels: the scale, room for words, the titles, the curve
_LOWEST, _HIGHEST = 0.02, 10.0  # losses; what is outside, or is not a number, stands at the edge


def loss_scene(losses: Sequence[tuple[float, float]], goal: float, title: str, subtitle: str) -> Scene:
    """The scene of a training.

    Args:
        losses: (seconds, loss) in order, at least one. The last one is marked.
        goal: the loss that was to be reached.
        title, subtitle: the headline and the line below it.
    """
    low, high = _bounds([goal, *(loss for _, loss in losses)])
    end = losses[-1][0] or 1.0

    def point_of(seconds: float, loss: float) -> tuple[float, float]:
        share = (math.log(_inside(loss)) - math.log(low)) / (math.log(high) - math.log(low))
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * seconds / end, 1), round(_TOP + _HIGH * (1 - share), 1)

    points = [point_of(*each) for each in losses]
    curve: Look = {
        "d": "M" + " L".join(f"{x} {y}" for x, y in points),
        "fill": "none",
        "stroke": BLUE,
        "stroke-width": 2.0,
    }
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        write(6, 42, subtitle, BODY),
        Shape("path", curve),
        Shape("circle", {"cx": points[-1][0], "cy": points[-1][1], "r": 4.5, "fill": BLUE}),
        *_axes(point_of(0, goal)[1], goal, point_of(0, high)[1], high, end),
    ]
    words = f"{title}. {subtitle}. The loss falls from {losses[0][1]:.2g} to {losses[-1][1]:.2g}."
    return Scene(title, WIDTH, _TOP + _HIGH + 44, shapes, [SceneStep("", words)], words, "the curve")


def _inside(loss: float) -> float:
    return min(max(loss, _LOWEST), _HIGHEST) if math.isfinite(loss) else _HIGHEST


def _bounds(losses: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest loss of the scale, with a little room."""
    inside = [_inside(loss) for loss in losses]
    return 0.8 * min(inside), 1.1 * max(inside)


def _axes(goal_y: float, goal: float, high_y: float, high: float, end: float) -> Iterator[Shape]:
    base, right = _TOP + _HIGH, WIDTH - _RIGHT
    dashed = {"d": f"M{_LEFT} {goal_y} H{right}", "fill": "none", "stroke": INK, "stroke-dasharray": "6 4"}
    yield Shape("path", dashed)
    yield write(_LEFT - 6, goal_y + 4, f"{goal:g}", SMALL, anchor="end")
    yield write(right + 6, goal_y + 4, "goal", SMALL)
    yield write(_LEFT - 6, high_y + 4, f"{high:.2g}", SMALL, anchor="end")
    yield Shape("path", {"d": f"M{_LEFT} {_TOP} V{base} H{right}", "fill": "none", "stroke": INK})
    yield write(right, base + 18, f"{end:.3f} s", SMALL, anchor="end")
    yield write(_LEFT, base + 18, "0", SMALL, anchor="middle")
    yield write((_LEFT + right) / 2, base + 34, "virtual seconds", SMALL, anchor="middle")
