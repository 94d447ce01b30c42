"""What a rank's memory is made of: a bar for each rank, in one piece for each kind, all ways below each other.

one process
rank 0  │ weights │gradients│     optimizer     │   activations   │  200 KiB

tensor parallel
rank 0  │  │  │    │      │  80 KiB
rank 1  │  │  │    │      │  80 KiB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import (
    Picture,
    add_axes,
    add_canvas,
    add_titles,
    key_of_areas,
    label_end,
    new_figure,
    text_width,
)
from distlib.draw.style import (
    BLUE,
    BODY,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    VERMILLION,
    WIDTH,
    drawing_style,
    format_bytes,
    points,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rank = Mapping[str, float]
"""Kind → bytes, of one rank."""

_COLORS = (BLUE, SKY, GREEN, ORANGE, PURPLE, VERMILLION)
_TOP, _HEADING, _LEFT, _RIGHT, _ROW = 56, 30, 70, 90, 26  # CSS pixels: titles, a way's name, rank names, totals, a bar


def memory_parts(ways: Mapping[str, Sequence[Rank]], title: str, subtitle: str = "") -> Picture:
    """Draw what each rank's memory is made of.

    Args:
        ways: name → by rank, kind → bytes. All ranks have the same kinds, in one order; at most 6.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: no ways or no ranks, other kinds on one rank than on the first, or bytes below 0.
    """
    ranks = [rank for way in ways.values() for rank in way]
    if not ranks or not all(ways.values()):
        raise ValueError(f"expected at least 1 way with at least 1 rank, got {dict(ways)}")
    kinds = list(ranks[0])
    if not 1 <= len(kinds) <= len(_COLORS):
        raise ValueError(f"expected 1 to {len(_COLORS)} kinds, got {kinds}")
    for rank in ranks:
        if list(rank) != kinds or min(rank.values()) < 0:
            raise ValueError(f"expected bytes of at least 0 for {', '.join(kinds)}, in this order, got {dict(rank)}")
    with drawing_style():
        return _draw(ways, kinds, title, subtitle)


def _draw(ways: Mapping[str, Sequence[Rank]], kinds: Sequence[str], title: str, subtitle: str) -> Picture:
    bars = sum(map(len, ways.values()))
    row = max(14.0, min(_ROW, 560 / bars))
    top = float(_TOP if subtitle else _TOP - 20)
    figure = new_figure(WIDTH, top + _HEADING * len(ways) + row * bars + 8)
    add_titles(figure, title, subtitle, title_room=430)
    canvas = add_canvas(figure)
    key_of_areas(canvas, {kind: _look(number) for number, kind in enumerate(kinds)})
    largest = max(1.0, *(sum(rank.values()) for way in ways.values() for rank in way))
    for name, by_rank in ways.items():
        canvas.text(_LEFT, top + _HEADING - 8, name, size=points(BODY), weight="bold", color=INK)
        axes = add_axes(figure, _LEFT, top + _HEADING, WIDTH - _LEFT - _RIGHT, row * len(by_rank))
        axes.set(xlim=(0, largest), ylim=(len(by_rank) - 0.5, -0.5), xticks=[])
        axes.set_yticks(range(len(by_rank)), [f"rank {rank}" for rank in range(len(by_rank))])
        axes.tick_params(axis="y", length=0, labelsize=points(12))
        axes.spines["bottom"].set_visible(False)
        for y, rank in enumerate(by_rank):
            _draw_bar(axes, y, rank, (WIDTH - _LEFT - _RIGHT) / largest)
        top += _HEADING + row * len(by_rank)
    return Picture(figure, _alt(ways, title))


def _look(number: int) -> dict[str, Any]:
    return {"facecolor": _COLORS[number], "edgecolor": INK}


def _draw_bar(axes: Axes, y: int, rank: Rank, pixels: float) -> None:
    left = 0.0
    for number, nbytes in enumerate(rank.values()):
        axes.barh(y, nbytes, 0.72, left, linewidth=points(0.6), **_look(number))
        words = format_bytes(nbytes)
        if text_width(words, SMALL) + 8 < nbytes * pixels:
            axes.text(
                left + nbytes / 2,
                y,
                words,
                size=points(SMALL),
                color=text_on(_COLORS[number]),
                ha="center",
                va="center_baseline",
            )
        left += nbytes
    label_end(axes, format_bytes(left), left, y, gap=6, annotation_clip=False)


def _alt(ways: Mapping[str, Sequence[Rank]], title: str) -> str:
    said = (
        f"{name}: "
        + "; ".join(
            f"rank {number} {format_bytes(sum(rank.values()))}, of it "
            + ", ".join(f"{kind} {format_bytes(nbytes)}" for kind, nbytes in rank.items())
            for number, rank in enumerate(by_rank)
        )
        for name, by_rank in ways.items()
    )
    return f"{title}. Bytes kept by each rank. {'. '.join(said)}."
