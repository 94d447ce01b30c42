"""What one process keeps, in named pieces, above the memory that it has: both on one scale.

needed    │ parameters │ gradients  │ averages   │ squares    │ 112 GB
one GPU   ┌───────────────────────────────────┐ 80 GB
"""

from __future__ import annotations

from collections.abc import Mapping

from distlib.draw.picture import Picture, add_axes, add_titles, fitting_size, label_end, new_figure
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
    format_number,
    points,
    text_on,
)

_COLORS = (BLUE, SKY, GREEN, ORANGE, PURPLE, VERMILLION)
_TOP, _LEFT, _RIGHT, _ROW = 60, 90, 80, 58  # CSS pixels: titles, the bars' names, totals, a bar


def memory_and_room(
    pieces: Mapping[str, float], room: Mapping[str, float], *, title: str, subtitle: str = ""
) -> Picture:
    """Draw what is kept in memory above the memory that there is.

    Args:
        pieces: name → bytes, 1 to 6 of them, from left to right.
        room: the name of the memory that there is → its bytes; one entry.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: other than 1 to 6 pieces, more or less than one room, or bytes that are not above 0.
    """
    if not 1 <= len(pieces) <= len(_COLORS) or len(room) != 1:
        raise ValueError(f"expected 1 to {len(_COLORS)} pieces and one room, got {len(pieces)} and {len(room)}")
    for name, nbytes in {**pieces, **room}.items():
        if not nbytes > 0:
            raise ValueError(f"{name}: expected bytes above 0, got {nbytes}")
    with drawing_style():
        return _draw(pieces, room, title, subtitle)


def _draw(pieces: Mapping[str, float], room: Mapping[str, float], title: str, subtitle: str) -> Picture:
    ((owner, there),) = room.items()
    needed = sum(pieces.values())
    figure = new_figure(WIDTH, _TOP + 2 * _ROW + 10)
    add_titles(figure, title, subtitle)
    width, largest = WIDTH - _LEFT - _RIGHT, max(needed, there)
    axes = add_axes(figure, _LEFT, _TOP, width, 2 * _ROW)
    axes.set(xlim=(0, largest), ylim=(1.5, -0.5), xticks=[])
    axes.set_yticks([0, 1], ["needed", owner])
    axes.tick_params(axis="y", length=0, labelsize=points(BODY))
    axes.spines["bottom"].set_visible(False)
    left = 0.0
    for (name, nbytes), color in zip(pieces.items(), _COLORS, strict=False):
        axes.barh(0, nbytes, 0.7, left, facecolor=color, edgecolor=INK, linewidth=points(0.6))
        pixels = width * nbytes / largest - 8
        for y, words in ((-0.11, name), (0.14, _gigabytes(nbytes))):
            size = points(fitting_size(words, SMALL + 1, pixels))
            middle = left + nbytes / 2
            axes.text(middle, y, words, size=size, color=text_on(color), ha="center", va="center_baseline")
        left += nbytes
    axes.barh(1, there, 0.7, facecolor="none", edgecolor=INK, linewidth=points(1.6))
    axes.vlines([there] * 2, [-0.5, 0.35], [-0.35, 0.65], color=INK, linewidth=points(1.6))
    for row, nbytes in enumerate((needed, there)):
        label_end(axes, _gigabytes(nbytes), nbytes, row, gap=7, size=points(BODY), annotation_clip=False)
    return Picture(figure, _alt(pieces, owner, there, title))


def _gigabytes(nbytes: float) -> str:
    return f"{format_number(nbytes / 1e9)} GB"


def _alt(pieces: Mapping[str, float], owner: str, there: float, title: str) -> str:
    told = ", ".join(f"{name} {_gigabytes(nbytes)}" for name, nbytes in pieces.items())
    return f"{title}. Needed: {_gigabytes(sum(pieces.values()))}, of it {told}. {owner}: {_gigabytes(there)}."
