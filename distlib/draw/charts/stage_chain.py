"""Which rank has which stages of a pipeline, and where what travels between two stages crosses from rank to rank.

    rank 0        rank 1        rank 2             rank 0        rank 1
    ┌───────┐ ──► ┌───────┐ ──► ┌───────┐          │ stage 0 │ ⇄ │ stage 1 │ ┐
    │stage 0│ ◄── │stage 1│ ◄── │stage 2│        ┌ │ stage 2 │ ⇄ │ stage 3 │ │
    └───────┘     └───────┘     └───────┘        └────────────────────────── ┘

Blue: an activation goes on to the next stage. Red: its gradient comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, text_width
from distlib.draw.style import BLUE, BODY, INK, SKY, SMALL, VERMILLION, WIDTH, drawing_style, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Spot = tuple[float, float]

_TOP, _HEAD = 60.0, 26.0  # CSS pixels: the titles, and the names of the ranks
_BOX, _GAP, _BETWEEN, _APART = 50.0, 68.0, 36.0, 11.0  # CSS pixels: a stage, room for arrows, and between two arrows
_MOST_RANKS, _MOST_STAGES = 8, 3  # and stages of one rank


def stages_on_ranks(
    stages: Sequence[Sequence[int]], layers: Mapping[int, str] | None = None, *, title: str, subtitle: str = ""
) -> Picture:
    """Draw the stages of a pipeline on their ranks, and the messages between them.

    Args:
        stages: by rank, the numbers of its stages, such as [[0, 2], [1, 3]]. Of 2 to 8 ranks, at most 3 on each.
        layers: stage → what it holds, in a few words; left out, only its number is written.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: too few or too many ranks or stages, or other numbers than 0, 1, … each once.
    """
    numbers = sorted(number for row in stages for number in row)
    if not 2 <= len(stages) <= _MOST_RANKS or not all(1 <= len(row) <= _MOST_STAGES for row in stages):
        raise ValueError(
            f"expected 2 to {_MOST_RANKS} ranks with 1 to {_MOST_STAGES} stages each, got {list(map(list, stages))}"
        )
    if numbers != list(range(len(numbers))):
        raise ValueError(f"expected each stage from 0 on once, got {list(map(list, stages))}")
    with drawing_style():
        return _draw([list(row) for row in stages], layers or {}, title, subtitle)


def _draw(stages: Sequence[Sequence[int]], layers: Mapping[int, str], title: str, subtitle: str) -> Picture:
    rows = max(map(len, stages))
    column = (WIDTH - 20) / len(stages)
    figure = new_figure(WIDTH, _TOP + _HEAD + rows * (_BOX + _BETWEEN) + 2)
    add_titles(figure, title, subtitle, title_room=470)
    canvas = add_canvas(figure)
    _draw_key(canvas)
    spots = {
        number: (10 + (rank + 0.5) * column, _TOP + _HEAD + 10 + (row + 0.5) * _BOX + row * _BETWEEN)
        for rank, own in enumerate(stages)
        for row, number in enumerate(own)
    }
    wide = column - _GAP
    for rank, own in enumerate(stages):
        _draw_rank(canvas, 10 + (rank + 0.5) * column, wide, rank, len(own))
        for number in own:
            _draw_stage(canvas, spots[number], wide, number, layers.get(number, ""))
    owner = {number: rank for rank, own in enumerate(stages) for number in own}
    for one, other in pairwise(range(len(owner))):
        _draw_messages(canvas, spots[one], spots[other], wide, same_rank=owner[one] == owner[other])
    return Picture(figure, _alt(stages, layers, title, subtitle, owner))


def _draw_key(canvas: Axes) -> None:
    x = WIDTH - 20.0
    for words, color in (("its gradient, back", VERMILLION), ("an activation, forward", BLUE)):
        canvas.text(x, 20, words, size=points(SMALL + 1), color=INK, ha="right", va="center_baseline")
        x -= text_width(words, SMALL + 1) + 8
        _arrow(canvas, [(x - 28, 20), (x, 20)], color)
        x -= 48


def _draw_rank(canvas: Axes, middle: float, wide: float, rank: int, own: int) -> None:
    """The rank's name above its stages; a frame around them, where there are several."""
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {"weight": "bold", "color": INK, "ha": "center", "va": "center_baseline"}
    canvas.text(middle, _TOP + _HEAD / 2, f"rank {rank}", size=points(BODY), **look)
    if own > 1:
        high = own * _BOX + (own - 1) * _BETWEEN + 12
        frame = FancyBboxPatch(
            (middle - wide / 2 - 6, _TOP + _HEAD + 4), wide + 12, high, boxstyle="round,pad=0,rounding_size=6"
        )
        frame.set(facecolor="none", edgecolor=INK, linewidth=points(1), linestyle=(0, (3, 3)))
        canvas.add_patch(frame)


def _draw_stage(canvas: Axes, spot: Spot, wide: float, number: int, words: str) -> None:
    from matplotlib.patches import Rectangle

    (x, y), color = spot, text_on(SKY)
    box = Rectangle((x - wide / 2, y - _BOX / 2), wide, _BOX, facecolor=SKY, edgecolor=INK, linewidth=points(1))
    canvas.add_patch(box)
    look: dict[str, Any] = {"color": color, "ha": "center", "va": "center_baseline"}
    canvas.text(x, y - 9 if words else y, f"stage {number}", size=points(BODY), weight="bold", **look)
    if words:
        canvas.text(x, y + 10, words, size=points(fitting_size(words, SMALL + 1, wide - 8)), **look)


def _draw_messages(canvas: Axes, one: Spot, other: Spot, wide: float, *, same_rank: bool) -> None:
    """An arrow there and one back: along a row, down inside a rank, or around to the row below."""
    (x, y), (next_x, next_y) = one, other
    if same_rank:
        for side, color in ((-1, BLUE), (1, VERMILLION)):
            at = x + side * _APART
            down = [(at, y + _BOX / 2), (at, next_y - _BOX / 2)]
            _arrow(canvas, down if color == BLUE else down[::-1], color)
    elif y == next_y:
        side = 1 if next_x > x else -1
        ends = x + side * (wide / 2 + 3), next_x - side * (wide / 2 + 3)
        for above, color in ((-1, BLUE), (1, VERMILLION)):
            level = [(end, y + above * _APART) for end in ends]
            _arrow(canvas, level if color == BLUE else level[::-1], color)
    else:
        middle = (y + next_y) / 2
        for side, color in ((-1, BLUE), (1, VERMILLION)):
            start, end = x - side * _APART, next_x - side * _APART
            across = middle + side * 5
            bent = [(start, y + _BOX / 2), (start, across), (end, across), (end, next_y - _BOX / 2)]
            _arrow(canvas, bent if color == BLUE else bent[::-1], color)


def _arrow(canvas: Axes, path: Sequence[Spot], color: str) -> None:
    """A line along a path, with a head at its end."""
    canvas.plot(*zip(*path, strict=True), color=color, linewidth=points(2.2), solid_joinstyle="round", zorder=3)
    look: dict[str, Any] = {"arrowstyle": "-|>,head_width=0.28,head_length=0.55", "shrinkA": 0, "shrinkB": 0}
    look |= {"color": color, "linewidth": points(2.2)}
    canvas.annotate("", path[-1], path[-2], arrowprops=look, zorder=3)


def _alt(
    stages: Sequence[Sequence[int]], layers: Mapping[int, str], title: str, subtitle: str, owner: Mapping[int, int]
) -> str:
    told = [f"{title}.", *[f"{subtitle}."] * bool(subtitle)]
    for rank, own in enumerate(stages):
        named = (f"stage {each} ({layers[each]})" if each in layers else f"stage {each}" for each in own)
        told.append(f"Rank {rank} has {', '.join(named)}.")
    crossed = sum(owner[one] != owner[other] for one, other in pairwise(range(len(owner))))
    told.append(
        "Each stage sends an activation to the next stage, and gets its gradient back: "
        f"{crossed} boundaries are between two ranks."
    )
    return " ".join(told)
