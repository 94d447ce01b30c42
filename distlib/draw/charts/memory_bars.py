"""How many bytes each rank keeps at most: a bar for each rank, a panel for each way of doing it, all on one scale.

GPipe                          1F1B
rank 0  ████████████ 64 KiB    ██████ 32 KiB
rank 1  ████████████ 64 KiB    ████▌ 24 KiB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, label_end, new_figure
from distlib.draw.style import BLUE, BODY, INK, WIDTH, drawing_style, format_bytes, points

_TOP, _HEADING, _LEFT, _GAP, _ROW = 56, 30, 70, 28, 30  # CSS pixels: titles, a panel's name, rank names, gaps, a rank


def memory_per_rank(ways: Mapping[str, Sequence[float]], title: str, subtitle: str = "") -> Picture:
    """Draw how many bytes each rank keeps at most.

    Args:
        ways: name → by rank, its bytes. 1 to 4 ways.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: other than 1 to 4 ways, one without ranks, or bytes below 0.
    """
    if not 1 <= len(ways) <= 4:
        raise ValueError(f"expected 1 to 4 ways, got {len(ways)}")
    for name, amounts in ways.items():
        if not amounts or min(amounts) < 0:
            raise ValueError(f"{name}: expected bytes of at least 0 for at least 1 rank, got {list(amounts)}")
    with drawing_style():
        return _draw(ways, title, subtitle)


def _draw(ways: Mapping[str, Sequence[float]], title: str, subtitle: str) -> Picture:
    ranks = max(map(len, ways.values()))
    row = max(14.0, min(_ROW, 480 / ranks))
    top = _TOP if subtitle else _TOP - 20
    figure = new_figure(WIDTH, top + _HEADING + row * ranks + 12)
    add_titles(figure, title, subtitle)
    canvas, width = add_canvas(figure), (WIDTH - _LEFT - 20 - _GAP * (len(ways) - 1)) / len(ways)
    largest = max(1.0, *(max(amounts) for amounts in ways.values()))
    for number, (name, amounts) in enumerate(ways.items()):
        left = _LEFT + number * (width + _GAP)
        size = points(fitting_size(name, BODY, width))
        canvas.text(left, top + _HEADING - 8, name, size=size, weight="bold", color=INK)
        axes = add_axes(figure, left, top + _HEADING, width, row * len(amounts))
        axes.set(xlim=(0, largest * (1 + 70 / (width - 70))), ylim=(len(amounts) - 0.5, -0.5), xticks=[])
        axes.barh(range(len(amounts)), amounts, 0.62, facecolor=BLUE, edgecolor=INK, linewidth=points(0.6))
        axes.set_yticks(range(len(amounts)), [f"rank {rank}" if number == 0 else "" for rank in range(len(amounts))])
        axes.tick_params(axis="y", length=0, labelsize=points(12))
        axes.spines["bottom"].set_visible(False)
        for rank, nbytes in enumerate(amounts):
            label_end(axes, format_bytes(nbytes), nbytes, rank)
    return Picture(figure, _alt(ways, title))


def _alt(ways: Mapping[str, Sequence[float]], title: str) -> str:
    told = (f"{name}: {', '.join(map(format_bytes, amounts))}." for name, amounts in ways.items())
    return " ".join([f"{title}. Bytes kept at most, by rank.", *told])
