"""How often each whole number came up, one way of doing it above the other, on the same axes.

equal workers    ▁█▁               2.9 on average
                ──┼────────────
one is slower    █▂      ▁         3.0
                ──┼────────────
                 0  3  6  9  12    staleness
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from distlib.draw.charts.log_axes import LEFT, RIGHT, set_ticks
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, new_figure, wrap_words
from distlib.draw.style import BODY, INK, WIDTH, color_of, drawing_style, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _HEIGHT, _GAP, _MOST = 62.0, 110.0, 36.0, 6  # CSS pixels; panels


def histogram(values: Mapping[str, Sequence[int]], *, along: str, title: str, subtitle: str = "") -> Picture:
    """Draw the share of each number, one panel for each way; a dotted line stands at the mean.

    Args:
        values: name of the way → the numbers that came up, of at least 0. At most 6 ways.
        along: what they are: "staleness". Written below the axis.
        title, subtitle: the headline and the line below it.

    Raises:
        ValueError: other than 1 to 6 ways, one without numbers, or a negative number.
    """
    if not 1 <= len(values) <= _MOST or not all(found and min(found) >= 0 for found in values.values()):
        sizes = {name: len(found) for name, found in values.items()}
        raise ValueError(f"expected 1 to {_MOST} ways, each with numbers of at least 0, got {sizes} numbers")
    shares = {name: _shares(found) for name, found in values.items()}
    largest = max(number for found in shares.values() for number in found)
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + len(values) * (_HEIGHT + _GAP) + 30)
        add_titles(figure, title, subtitle)
        canvas = add_canvas(figure)
        for order, (name, found) in enumerate(shares.items()):
            top = _TOP + order * (_HEIGHT + _GAP)
            axes = add_axes(figure, LEFT, top, WIDTH - LEFT - RIGHT, _HEIGHT)
            _draw(axes, found, largest, order, statistics.mean(values[name]))
            words = (*wrap_words(name, BODY, RIGHT - 24), f"mean {statistics.mean(values[name]):.2f}")
            for line, text in enumerate(words):
                size = points(fitting_size(text, BODY, RIGHT - 24))
                canvas.text(WIDTH - RIGHT + 14, top + 22 + 17 * line, text, size=size, color=INK)
        axes.set_xlabel(along, size=points(12))
        return Picture(figure, _describe(shares, values, along, title))


def _shares(found: Sequence[int]) -> dict[int, float]:
    return {number: times / len(found) for number, times in sorted(Counter(found).items())}


def _draw(axes: Axes, shares: Mapping[int, float], largest: int, order: int, mean: float) -> None:
    axes.bar(list(shares), list(shares.values()), 0.8, color=color_of(order), linewidth=0)
    axes.axvline(mean, color=INK, linewidth=points(1.5), linestyle=":")
    axes.set_xlim(-0.6, largest + 0.6)
    axes.set_ylim(0, 1)
    set_ticks(axes, "y", [0, 0.5, 1], "{:.0%}".format)
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, largest) if largest / step <= 20)
    set_ticks(axes, "x", list(range(0, largest + 1, every)), "{:.0f}".format)


def _describe(
    shares: Mapping[str, Mapping[int, float]], values: Mapping[str, Sequence[int]], along: str, title: str
) -> str:
    """The picture in words, as alternative text."""
    told = []
    for name, found in shares.items():
        often = max(found, key=lambda number: found[number])
        told.append(
            f"{name}: from {min(found)} to {max(found)}, on average {statistics.mean(values[name]):.2f}, most often "
            f"{often} ({found[often]:.0%})"
        )
    return f"{title}. How often each {along} came up. {'; '.join(told)}."
