"""How many tokens each rank sends to the experts of each rank: a band from the one to the other.

tokens of              experts of
rank 0  ██────────────██ rank 0        the thicker a band, the more tokens; its color is the rank that it leaves
        ██╲   ╱───────██               a tall bar on the right: many tokens have come to the experts of this rank
rank 1  ██──╳─────────██ rank 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BODY, INK, SMALL, WIDTH, color_of, drawing_style, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[Sequence[int]]
"""[from][to]: how many rows a rank sends to the experts of another one, or keeps."""

_TOP, _HEAD, _TALL, _GAP = (
    56.0,
    46.0,
    210.0,
    12.0,
)  # CSS pixels: titles, a panel's names, all bars of a side, between two
_BAR, _LEFT, _RIGHT = 12.0, 62.0, 104.0  # CSS pixels: how wide a bar is, and the words left and right of the bars
_MOST_PANELS, _MOST_RANKS = 2, 8


def token_routes(panels: Mapping[str, Rows], *, title: str) -> Picture:
    """Draw which rank's tokens go to the experts of which rank.

    Args:
        panels: words → [from][to], how many rows a rank sends to the experts of another one, or keeps. At most 2
            panels, of 2 to 8 ranks. Each has the same height, whatever its number of rows.
        title: the headline.

    Raises:
        ValueError: nothing to draw, too much, or not one number for each pair of ranks.
    """
    if not 1 <= len(panels) <= _MOST_PANELS:
        raise ValueError(f"expected 1 or {_MOST_PANELS} panels, got {len(panels)}")
    for name, rows in panels.items():
        size = len(rows)
        if not 2 <= size <= _MOST_RANKS or any(len(row) != size for row in rows) or min(map(min, rows)) < 0:
            raise ValueError(f"{name}: expected a number of rows for each pair of 2 to {_MOST_RANKS} ranks, got {rows}")
        if not any(map(any, rows)):
            raise ValueError(f"{name}: expected some rows, got none")
    with drawing_style():
        return _draw(panels, title)


def _draw(panels: Mapping[str, Rows], title: str) -> Picture:
    most = max(map(len, panels.values()))
    figure = new_figure(WIDTH, _TOP + _HEAD + _TALL + _GAP * (most - 1) + 14)
    add_titles(
        figure,
        title,
        "a band is as thick as the number of rows, one per token and expert; its color: where they come from",
    )
    canvas, told, room = add_canvas(figure), [], WIDTH / len(panels)
    for number, (name, rows) in enumerate(panels.items()):
        _draw_panel(canvas, number * room, room, name, rows)
        told.append(f"{name}: {_in_words(rows)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_panel(canvas: Axes, left: float, room: float, name: str, rows: Rows) -> None:
    start, end = left + _LEFT, left + room - _RIGHT
    canvas.text(left + 10, _TOP + 10, name, size=points(fitting_size(name, BODY + 1, room - 20)), **_look("left", True))
    canvas.text(start, _TOP + 34, "tokens of", size=points(SMALL), **_look("right"))
    canvas.text(end, _TOP + 34, "experts of", size=points(SMALL), **_look("left"))
    pixels = _TALL / sum(map(sum, rows))  # for each row
    leave, arrive = (
        _tops([sum(row) for row in rows], pixels),
        _tops([sum(column) for column in zip(*rows, strict=True)], pixels),
    )
    for side, x, tops in ((rows, start, leave), (list(zip(*rows, strict=True)), end - _BAR, arrive)):
        for rank, (top, numbers) in enumerate(zip(tops, side, strict=True)):
            _draw_bar(canvas, x, top, sum(numbers) * pixels, color_of(rank))
    for rank, numbers in enumerate(rows):
        canvas.text(
            start - 8, leave[rank] + sum(numbers) * pixels / 2, f"rank {rank}", size=points(BODY), **_look("right")
        )
    for rank, column in enumerate(zip(*rows, strict=True)):
        words = f"rank {rank}: {sum(column):,}"
        size = points(fitting_size(words, BODY, _RIGHT - 10))
        canvas.text(end + 8, arrive[rank] + sum(column) * pixels / 2, words, size=size, **_look("left"))
    for src, numbers in enumerate(rows):
        for dst, count in enumerate(numbers):
            thick = count * pixels
            _draw_band(canvas, (start + _BAR, leave[src]), (end - _BAR, arrive[dst]), thick, color_of(src))
            leave[src] += thick
            arrive[dst] += thick


def _tops(numbers: Sequence[int], pixels: float) -> list[float]:
    """Where each bar of a side begins."""
    return [_TOP + _HEAD + sum(numbers[:rank]) * pixels + _GAP * rank for rank in range(len(numbers))]


def _draw_bar(canvas: Axes, left: float, top: float, height: float, color: str) -> None:
    from matplotlib.patches import Rectangle

    bar = Rectangle((left, top), _BAR, height, facecolor=color, edgecolor=INK, linewidth=points(1), zorder=3)
    canvas.add_patch(bar)


def _draw_band(canvas: Axes, start: tuple[float, float], end: tuple[float, float], thick: float, color: str) -> None:
    """From the top left corner of the band to its top right one."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not thick:
        return
    middle = (start[0] + end[0]) / 2
    above = [start, (middle, start[1]), (middle, end[1]), end]
    below = [(x, y + thick) for x, y in reversed(above)]
    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    band = Path([*above, *below, start], codes)
    canvas.add_patch(PathPatch(band, facecolor=color, alpha=0.55, linewidth=0, zorder=2))


def _look(side: str, is_bold: bool = False) -> dict[str, Any]:
    weight = "bold" if is_bold else "normal"
    return {"color": INK, "ha": side, "va": "center_baseline", "weight": weight, "zorder": 4}


def _in_words(rows: Rows) -> str:
    """ "rank 0 sends 5, 3 rows to ranks 0 to 1; the experts of ranks 0 to 1 get 9, 7"."""
    last = len(rows) - 1
    sent = (f"rank {rank} sends {', '.join(map(str, row))} rows to ranks 0 to {last}" for rank, row in enumerate(rows))
    came = ", ".join(str(sum(column)) for column in zip(*rows, strict=True))
    return f"{'; '.join(sent)}; the experts of ranks 0 to {last} get {came}"
