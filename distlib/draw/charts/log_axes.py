"""Axes on which both sizes and durations grow by factors, labeled in units that a person reads, and names of lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import fitting_size, wrap_words
from distlib.draw.style import (
    BODY,
    INK,
    SMALL,
    WIDTH,
    format_bytes,
    format_number,
    format_seconds,
    line_color_of,
    points,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME_LINE = 15.0  # CSS pixels: from one line of a name to the next
LEFT, RIGHT = 70.0, 158.0  # CSS pixels: for the labels of the y axis, for the names of the lines
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (3, 2)),
    (0, (10, 3)),
    (0, (4, 3)),
)


def label_seconds(axes: Axes, lowest: float, highest: float) -> None:
    """A logarithmic y axis from `lowest` to `highest` seconds, with some room: 1 µs, 10 µs, …"""
    label_values(axes, lowest, highest, format_seconds)


def label_values(axes: Axes, lowest: float, highest: float, write: Callable[[float], str], what: str = "") -> None:
    """As `label_seconds`, for values above 0 of any kind. `write`: how one is written; `what`: what they are."""
    low, high = lowest / 1.5, highest * 1.5
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    say_logarithmic(axes, what)
    set_ticks(axes, "y", ticks_of_seconds(low, high), write)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=points(0.8))


def say_logarithmic(axes: Axes, what: str = "") -> None:
    """Say above the y axis that it is logarithmic, in the 20 CSS pixels that are left below the titles.

    `what`: what is on the axis, in front of that.
    """
    words = f"{what} (logarithmic)" if what else "logarithmic"
    axes.annotate(
        words,
        (0, 1),
        xytext=(points(-LEFT + 10), points(7)),
        xycoords="axes fraction",
        textcoords="offset points",
        size=points(SMALL),
        color=INK,
    )


def name_axis(axes: Axes, words: str) -> None:
    """What a logarithmic x axis shows, below it."""
    axes.set_xlabel(f"{words} (logarithmic)", size=points(12))


def label_sizes(axes: Axes, sizes: Sequence[int], margin: float = 0) -> None:
    """A logarithmic x axis of sizes: 1 KiB, 4 KiB, … `margin`: CSS pixels to leave free left and right of them."""
    axes.set_xscale("log")
    room = (max(sizes) / min(sizes)) ** (margin / (WIDTH - LEFT - RIGHT - 2 * margin))
    axes.set_xlim(min(sizes) / room, max(sizes) * room)
    set_ticks(axes, "x", ticks_of_sizes(sizes), format_bytes)


def label_ranks(axes: Axes, ranks: Sequence[float]) -> None:
    """A logarithmic x axis of numbers (of ranks, say), with a tick at those that there are, as far as there is room."""
    axes.set_xscale("log")
    axes.set_xlim(min(ranks), max(ranks))
    set_ticks(axes, "x", ticks_of_ranks(ranks), format_number)


def ticks_of_seconds(low: float, high: float) -> list[float]:
    """Powers of ten within the range; with 1, 2 and 5 times each, if there are few, and more if there are very few."""
    found = _multiples((1,) if high / low > 300 else (1, 2, 5), low, high)
    return found if len(found) > 2 else _multiples((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), low, high)


def _multiples(factors: Sequence[float], low: float, high: float) -> list[float]:
    """These factors times a power of ten, within a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{factor}e{power}") for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def ticks_of_sizes(sizes: Sequence[int]) -> list[float]:
    """Powers of two within the range, 9 at most; the sizes themselves, if there are none."""
    first, last = math.ceil(math.log2(min(sizes))), math.floor(math.log2(max(sizes)))
    step = max(1, -(-(last - first) // 8))
    ticks = [2.0**power for power in range(-(-first // step) * step, last + 1, step)]
    return ticks or [float(size) for size in sizes]


def ticks_of_ranks(ranks: Sequence[float]) -> list[float]:
    """Those numbers of ranks that are far enough apart."""
    room = math.log(max(ranks) / min(ranks)) / 16
    shown: list[float] = []
    for number in ranks:
        if not shown or math.log(number / shown[-1]) >= room:
            shown.append(float(number))
    return shown


def draw_line(axes: Axes, xs: Sequence[float], values: Sequence[float], number: int, **more: Any) -> None:
    """A line with markers. `number`: of its color, dashes and marker, as `name_lines` names it. `more`: as of plot."""
    axes.plot(
        xs,
        values,
        color=line_color_of(number),
        linestyle=DASHES[number],
        linewidth=points(2.2),
        marker=MARKERS[number],
        markersize=points(8),
        zorder=3,
        clip_on=False,
        **more,
    )


def name_lines(canvas: Axes, axes: Axes, ends: Mapping[str, tuple[int, float]], top: float, height: float) -> None:
    """Names right of where lines end, moved apart, each with its marker and a thin line to its own end.

    Args:
        canvas: where they are written.
        axes: of the lines, `top` CSS pixels below the figure's top and `height` high.
        ends: name to the number of its color and marker, and to the y value at which its line ends.
    """
    of_axes = axes.transData - axes.transAxes  # the part of the axes' height that lies below a value
    heights = [top + height * (1 - of_axes.transform((axes.get_xlim()[0], value))[1]) for _, value in ends.values()]
    written = [wrap_words(name, BODY, RIGHT - 44) for name in ends]
    middles = spread(heights, [3 + _NAME_LINE * len(lines) for lines in written], top, top + height)
    for lines, (number, _), end, y in zip(written, ends.values(), heights, middles, strict=True):
        color, right = line_color_of(number), WIDTH - RIGHT
        canvas.plot([right + 5, right + 24], [end, y], color=color, linewidth=points(1))
        canvas.plot(right + 30, y, MARKERS[number], color=color, markersize=points(8))
        size = min(fitting_size(line, BODY, RIGHT - 44) for line in lines)
        for order, line in enumerate(lines):
            below = _NAME_LINE * (order - (len(lines) - 1) / 2)
            canvas.text(right + 40, y + below, line, size=points(size), color=INK, va="center_baseline")


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """The middles of labels, in the order of `wanted`: near what is wanted, apart, inside of low to high.

    sizes: how high each label is. Where there is too little room for all, the last ones stand below `high`.
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    middles = [0.0] * len(wanted)
    begin, room = low, sum(sizes)  # where the next label may begin; what the labels from here on take
    for index in order:
        begin = max(min(wanted[index] - sizes[index] / 2, high - room), begin)
        middles[index] = begin + sizes[index] / 2
        begin, room = begin + sizes[index], room - sizes[index]
    return middles


def set_ticks(axes: Axes, which: str, ticks: Sequence[float], name: Callable[[float], str]) -> None:
    """Ticks at these places of the "x" or "y" axis and nowhere else, each with its name."""
    from matplotlib.ticker import NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(list(ticks), [name(tick) for tick in ticks])
