"""How many times faster several ranks are than one: lines over the number of ranks, and the ideal.

     16 │            ∙ ideal: N ranks are N times as fast
      4 │     ∙  ╱── ring
      1 │ ∙─────╲___ master             below 1: slower than a single rank
        └──────────────
          1   4   16   ranks

Both axes are logarithmic, so the ideal is a straight line, and a gap to it is the same factor everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from distlib.draw.charts.log_axes import (
    LEFT,
    RIGHT,
    draw_line,
    label_ranks,
    name_axis,
    name_lines,
    say_logarithmic,
    set_ticks,
)
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, new_figure
from distlib.draw.style import BODY, INK, WIDTH, drawing_style, format_number, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _HEIGHT = 62.0, 320.0  # CSS pixels


def speed_up(seconds: Mapping[str, Mapping[int, float]], title: str | None = None) -> Picture:
    """Draw speed-ups: the seconds of one rank divided by those of N ranks.

    Args:
        seconds: name to number of ranks to seconds, such as {"ring": {1: 0.4, 2: 0.21, 4: 0.12}}. Each needs an entry
            for 1 rank, which it is compared with, and another one.
        title: the headline.

    Raises:
        ValueError: nothing to draw, no entry for 1 rank or no other, or a duration that is not above 0.
    """
    for name, times in seconds.items():
        if 1 not in times or len(times) < 2 or min(times) < 1 or min(times.values()) <= 0:
            raise ValueError(f"{name}: expected seconds above 0 for 1 rank and for others, got {dict(times)}")
    if not seconds:
        raise ValueError("expected {name: {ranks: seconds}}, got nothing")
    lines = {name: {n: times[1] / times[n] for n in sorted(times)} for name, times in seconds.items()}
    with drawing_style():
        return _draw(lines, title or "How many times faster than one rank?")


def _draw(lines: Mapping[str, Mapping[int, float]], title: str) -> Picture:
    figure = new_figure(WIDTH, _TOP + _HEIGHT + 50)
    add_titles(figure, title, _subtitle(lines))
    axes = add_axes(figure, LEFT, _TOP, WIDTH - LEFT - RIGHT, _HEIGHT)
    ranks = sorted({n for line in lines.values() for n in line})
    _label(axes, ranks, [value for line in lines.values() for value in line.values()])
    axes.plot(ranks, ranks, color=INK, linewidth=points(1.5), linestyle=":", clip_on=False)
    axes.annotate(
        "ideal",
        (ranks[len(ranks) // 2],) * 2,
        xytext=(points(-6), points(6)),
        textcoords="offset points",
        size=points(BODY),
        ha="right",
    )
    ends = {}
    for number, (name, line) in enumerate(lines.items()):
        draw_line(axes, list(line), list(line.values()), number)
        ends[name] = (number, line[max(line)])
    name_lines(add_canvas(figure), axes, ends, _TOP, _HEIGHT)
    return Picture(figure, _describe(lines, title))


def _label(axes: Axes, ranks: list[int], values: list[float]) -> None:
    label_ranks(axes, ranks)
    name_axis(axes, "ranks")
    axes.set_yscale("log")
    say_logarithmic(axes)
    low, high = min(1.0, *values) / 1.2, max(ranks[-1], *values) * 1.2
    axes.set_ylim(low, high)
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    set_ticks(axes, "y", [2.0**power for power in powers], format_number)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=points(0.8))
    axes.axhline(1, color=INK, linewidth=points(1.2), alpha=0.7)


def _best(line: Mapping[int, float]) -> tuple[int, str]:
    ranks = max(line, key=lambda n: line[n])
    return ranks, f"{line[ranks]:.3g}"


def _subtitle(lines: Mapping[str, Mapping[int, float]]) -> str:
    told = [f"{name} at best {_best(line)[1]} times, with {_best(line)[0]} ranks" for name, line in lines.items()]
    return "; ".join(told)


def _describe(lines: Mapping[str, Mapping[int, float]], title: str) -> str:
    """The picture in words, as alternative text."""
    told = [
        f"{name}: {', '.join(f'{value:.3g} times with {n}' for n, value in line.items())}"
        for name, line in lines.items()
    ]
    return f"{title} Speed-up over the number of ranks, both axes logarithmic. {'. '.join(told)}."
