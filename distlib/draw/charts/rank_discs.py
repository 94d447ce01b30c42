"""Ranks as numbered discs in a circle: what pictures of who talks to whom, and who waits for whom, have in common."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from distlib.draw.style import INK, color_of, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Spot = tuple[float, float]
TOP, LEFT = -math.pi / 2, math.pi


def in_a_circle(count: int, middle: Spot, across: float, down: float, first: float = TOP) -> list[Spot]:
    """Where so many ranks are, clockwise, in CSS pixels.

    Args:
        across, down: from the middle to a rank at the side, and to one at the top.
        first: where rank 0 is, TOP or LEFT.
    """
    turns = (first + 2 * math.pi * number / count for number in range(count))
    return [(middle[0] + across * math.cos(turn), middle[1] + down * math.sin(turn)) for turn in turns]


def draw_rank(canvas: Axes, rank: int, spot: Spot, radius: float, size: float) -> None:
    """A disc in the color of a rank, with its number in this size, both in CSS pixels."""
    from matplotlib.patches import Circle

    color = color_of(rank)
    canvas.add_patch(Circle(spot, radius, facecolor=color, edgecolor=INK, linewidth=points(1), zorder=3))
    look: dict[str, Any] = {"weight": "bold", "color": text_on(color), "ha": "center", "va": "center_baseline"}
    canvas.text(*spot, str(rank), size=points(size), zorder=4, **look)
