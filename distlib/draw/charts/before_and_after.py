"""What each rank has before a collective and after it: a tile for each number, a row for each rank.

    broadcast              scatter
    0  [7]  →  [7]         0  [1][2][3][4]  →  [1]
    1       →  [7]         1                →  [2]
    2       →  [7]         2                →  [3]

A number has the same color wherever it is. A number that was nowhere before, such as a sum, has a color of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, text_width
from distlib.draw.style import BODY, INK, SMALL, WIDTH, color_of, drawing_style, format_number, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Held = Sequence[Sequence[float]]
"""By rank, the numbers that it has; none where what it has does not matter."""

_TOP, _HEAD = 60.0, 30.0  # CSS pixels: the titles, and the name of a panel
_ROW, _TILE, _ARROW = 34.0, 26.0, 34.0  # CSS pixels; a tile is wider where its number is
_LEFT = 22.0  # CSS pixels: the number of a rank
_MOST = 5  # numbers on a rank, and ranks


def before_and_after(
    panels: Mapping[str, tuple[Held, Held]],
    *,
    title: str,
    subtitle: str = "a row is a rank; a tile is a number that the pattern takes from it, or delivers to it",
    colors: Mapping[float, int] | None = None,
) -> Picture:
    """Draw what the ranks have before several collectives, and after them.

    Args:
        panels: the name of a collective → what each rank has before it, and after it, as numbers by rank. At most 4.
        title, subtitle: the headline and the line below it.
        colors: number → the index of its color, for each number in the panels. None: each number has its own color.

    Raises:
        ValueError: nothing to draw, more than 4 panels, more than 5 ranks or numbers on a rank, or other ranks after.
    """
    if not 1 <= len(panels) <= 4:
        raise ValueError(f"expected 1 to 4 collectives, got {len(panels)}")
    for name, (before, after) in panels.items():
        if len(before) != len(after) or len(before) > _MOST or max(map(len, chain(before, after))) > _MOST:
            raise ValueError(
                f"{name}: expected as many ranks after as before, at most {_MOST}, with at most {_MOST} numbers each, "
                f"got {list(map(list, before))} and {list(map(list, after))}"
            )
    with drawing_style():
        return _draw(panels, title, subtitle, colors or {})


def _draw(panels: Mapping[str, tuple[Held, Held]], title: str, subtitle: str, chosen: Mapping[float, int]) -> Picture:
    rows = max(len(before) for before, _ in panels.values())
    figure = new_figure(WIDTH, _TOP + _HEAD + _ROW * rows + 8)
    add_titles(figure, title, subtitle)
    canvas = add_canvas(figure)
    told = []
    panel = WIDTH / len(panels)
    for place, (name, (before, after)) in enumerate(panels.items()):
        _draw_panel(canvas, 10 + place * panel, panel, name, before, after, chosen)
        told.append(f"{name}: from {_in_words(before)} to {_in_words(after)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_panel(
    canvas: Axes, left: float, room: float, name: str, before: Held, after: Held, chosen: Mapping[float, int]
) -> None:
    canvas.text(left, _TOP + 16, name, size=points(BODY + 1), weight="bold", color=INK, va="center_baseline")
    numbers = list(dict.fromkeys(chain(*before, *after)))
    colors = {number: color_of(chosen.get(number, place)) for place, number in enumerate(numbers)}
    widest = max(map(len, before))
    wide = max((1.15 * text_width(format_number(number), BODY) + 6 for number in numbers), default=0)
    tile = min(max(_TILE, wide), (room - _LEFT - _ARROW - 30) / (widest + max(map(len, after))))
    middle = left + _LEFT + tile * widest + _ARROW / 2
    for rank, (had, has) in enumerate(zip(before, after, strict=True)):
        y = _TOP + _HEAD + (rank + 0.5) * _ROW
        canvas.text(left, y, str(rank), size=points(SMALL), color=INK, va="center_baseline")
        _draw_tiles(canvas, left + _LEFT, y, tile, had, colors)
        end, look = (middle + 9, y), {"arrowstyle": "->", "color": INK, "linewidth": points(1.2)}
        canvas.annotate("", end, (middle - 9, y), arrowprops=look)
        _draw_tiles(canvas, middle + _ARROW / 2, y, tile, has, colors)


def _draw_tiles(
    canvas: Axes, left: float, y: float, tile: float, held: Sequence[float], colors: Mapping[float, str]
) -> None:
    from matplotlib.patches import Rectangle

    for place, number in enumerate(held):
        words = format_number(number)
        box = Rectangle((left + place * tile, y - _TILE / 2), tile, _TILE, facecolor=colors[number])
        box.set(edgecolor=INK, linewidth=points(1))
        canvas.add_patch(box)
        size = points(fitting_size(words, BODY, tile - 3))
        x = left + (place + 0.5) * tile
        color = text_on(colors[number])
        canvas.text(x, y, words, size=size, weight="bold", color=color, ha="center", va="center_baseline")


def _in_words(held: Held) -> str:
    """ "rank 0 with 1, 2; rank 1 with nothing"."""
    numbers = (", ".join(map(format_number, each)) or "nothing" for each in held)
    return "; ".join(f"rank {rank} with {each}" for rank, each in enumerate(numbers))
