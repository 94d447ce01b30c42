"""What each rank does while a layer of experts goes on: tokens arrive, it computes, it waits for the busiest rank.

balanced      rank 0  ░░█████░░
              rank 1  ░░█████░░
uneven        rank 0  ░░████████████████░░       the layer takes as long as the rank with most tokens
              rank 1  ░░███/////////////░░

A rank waits from its own last computing to that of the busiest rank; some of its messages may travel meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distlib.draw.charts.step_lanes import WAITS
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, key_of_areas, new_figure
from distlib.draw.style import BODY, INK, ORANGE, SKY, SMALL, WIDTH, drawing_style, format_seconds, points, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _LEFT, _ROW, _GAP, _FOOT = 58.0, 190.0, 24.0, 16.0, 44.0  # CSS pixels
_LOOKS: dict[str, dict[str, Any]] = {
    "all-to-all": {"facecolor": ORANGE, "edgecolor": INK},
    "computes": {"facecolor": SKY, "edgecolor": INK},
    "waits": WAITS,
}


class ExpertLayer(NamedTuple):
    """A layer of experts, in seconds since it began.

    Attributes:
        computing: by rank, from when to when it computes.
        end: when the last rank is done.
    """

    computing: Sequence[tuple[float, float]]
    end: float


def expert_lanes(layers: Mapping[str, ExpertLayer], *, title: str) -> Picture:
    """Draw when the ranks of one or several layers compute, communicate and wait, on one scale.

    Args:
        layers: words → when its ranks compute, and when all is done. At most 4.
        title: the headline.

    Raises:
        ValueError: nothing to draw, or more than 4 layers.
    """
    if not 1 <= len(layers) <= 4 or not all(layer.computing for layer in layers.values()):
        raise ValueError(f"expected 1 to 4 layers with ranks, got {dict(layers)}")
    with drawing_style():
        return _draw(layers, title)


def _draw(layers: Mapping[str, ExpertLayer], title: str) -> Picture:
    height = sum(_ROW * len(layer.computing) + _GAP for layer in layers.values())
    figure = new_figure(WIDTH, _TOP + height + _FOOT)
    add_titles(figure, title, "a lane is a rank; it waits until the busiest rank has computed", title_room=480)
    canvas = add_canvas(figure)
    key_of_areas(canvas, _LOOKS)
    longest = max(layer.end for layer in layers.values())
    unit, factor = time_unit(longest)
    axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - 20, height)
    axes.set(xlim=(0, longest / factor), ylim=(height, 0), xlabel=f"time ({unit})", yticks=[])
    axes.spines["left"].set_visible(False)
    top, told = 0.0, []
    for name, layer in layers.items():
        middle = _TOP + top + _ROW * len(layer.computing) / 2
        size = points(fitting_size(name, BODY, _LEFT - 80))
        canvas.text(10, middle, name, size=size, weight="bold", color=INK, va="center_baseline")
        for rank in range(len(layer.computing)):
            y = _TOP + top + _ROW * (rank + 0.5)
            canvas.text(_LEFT - 8, y, f"rank {rank}", size=points(SMALL), color=INK, ha="right", va="center_baseline")
            _draw_lane(axes, layer, rank, top + _ROW * rank, factor)
        top += _ROW * len(layer.computing) + _GAP
        told.append(f"{name}: {_in_words(layer)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_lane(axes: Axes, layer: ExpertLayer, rank: int, top: float, factor: float) -> None:
    from matplotlib.patches import Rectangle

    (start, end), latest = layer.computing[rank], _latest(layer)
    parts = (
        ("all-to-all", 0.0, start),
        ("computes", start, end),
        ("waits", end, latest),
        ("all-to-all", latest, layer.end),
    )
    for kind, first, last in parts:
        if last > first:
            edge = 0.0 if kind == "waits" else points(1)
            box = Rectangle(
                (first / factor, top + 2), (last - first) / factor, _ROW - 4, linewidth=edge, **_LOOKS[kind]
            )
            axes.add_patch(box)


def _latest(layer: ExpertLayer) -> float:
    return max(end for _, end in layer.computing)


def _in_words(layer: ExpertLayer) -> str:
    latest = _latest(layer)
    ranks = (
        f"rank {rank} computes {format_seconds(end - start)} and waits {format_seconds(latest - end)}"
        for rank, (start, end) in enumerate(layer.computing)
    )
    return f"{'; '.join(ranks)}; all is done after {format_seconds(layer.end)}"
