"""Axes on which both sizes and durations grow by factors, labeled in units that a person reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from distlib.draw.style import INK, format_bytes, format_seconds, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def label_seconds(axes: Axes, lowest: float, highest: float) -> None:
    """A logarithmic y axis from `lowest` to `highest` seconds, with some room: 1 µs, 10 µs, …"""
    low, high = lowest / 1.5, highest * 1.5
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    factors = (1,) if high / low > 300 else (1, 2, 5)
    _set_ticks(axes, "y", _decimal_ticks(low, high, factors), format_seconds)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=points(0.8))


def label_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """A logarithmic x axis of message sizes: 1 KiB, 4 KiB, …"""
    axes.set_xscale("log")
    axes.set_xlim(min(sizes), max(sizes))
    first, last = math.ceil(math.log2(min(sizes))), math.floor(math.log2(max(sizes)))
    step = max(1, -(-(last - first) // 8))
    ticks = [2.0**power for power in range(-(-first // step) * step, last + 1, step)]
    _set_ticks(axes, "x", ticks or [float(size) for size in sizes], format_bytes)


def label_ranks(axes: Axes, ranks: Sequence[int]) -> None:
    """A logarithmic x axis of numbers of ranks, with a tick at those that there are, as far as there is room."""
    axes.set_xscale("log")
    axes.set_xlim(min(ranks), max(ranks))
    room = math.log(max(ranks) / min(ranks)) / 16
    shown: list[float] = []
    for number in ranks:
        if not shown or math.log(number / shown[-1]) >= room:
            shown.append(number)
    _set_ticks(axes, "x", shown, lambda number: f"{int(number):,}")


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places for labels, in the order of `wanted`: near what is wanted, at least `apart`, inside of low to high."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = [0.0] * len(wanted)
    below = low - apart
    for number, index in enumerate(order):
        room = high - apart * (len(order) - 1 - number)
        below = placed[index] = max(min(wanted[index], room), below + apart)
    return placed


def _decimal_ticks(low: float, high: float, factors: Sequence[int]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{factor}e{power}") for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def _set_ticks(axes: Axes, which: str, ticks: Sequence[float], name: Callable[[float], str]) -> None:
    from matplotlib.ticker import NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(list(ticks), [name(tick) for tick in ticks])
