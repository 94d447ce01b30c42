"""Which all-reduce is the fastest, as a picture: predicted seconds over message sizes, or over ranks.

     1 ms │            ╱ tree
          │       ___╱─  ring         a line for each algorithm, its name where it ends
    10 µs │ ─────╱  ┊
          └─────────┊────────
           [ tree   ┊ ring  ]         below: the fastest, and from where on
            1 KiB    1 MiB

Both axes are logarithmic: on them latency is a level line, bandwidth a slope of one, and "ten times as fast" the same
distance everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.log_axes import (
    LEFT,
    MARKERS,
    RIGHT,
    draw_line,
    label_ranks,
    label_seconds,
    label_sizes,
    name_axis,
    name_lines,
)
from distlib.draw.charts.race_table import Lead, Race, run_race
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, new_figure, text_width
from distlib.draw.style import (
    INK,
    SMALL,
    WIDTH,
    color_of,
    drawing_style,
    format_bytes,
    format_seconds,
    points,
    text_on,
)
from distlib.network import ALL_REDUCES, Cluster

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _HEIGHT, _BAND, _GAP = 62.0, 340.0, 30.0, 8.0  # CSS pixels: titles, lines, band of the fastest, between them


def race(
    cluster: Cluster | Sequence[Cluster],
    nbytes: int | Sequence[int],
    algorithms: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Picture:
    """Draw what all-reduces of float32 take by the model of `distlib.network`, and which one is the fastest where.

    Args:
        cluster: one, with several sizes as `nbytes`: the x axis is the size. Or several of different numbers of ranks,
            with one size: the x axis is the number of ranks.
        nbytes: sizes of the tensor, or one size, in bytes; rounded down to whole numbers of 4 bytes.
        algorithms: names as `all_reduce` takes them; by default all.
        title: the headline.

    Raises:
        ValueError: not exactly one of the two is a sequence; fewer than 2 different amounts; less than 4 bytes or 2
            ranks; an unknown algorithm; links that take no time.
    """
    table = run_race(cluster, nbytes, algorithms)
    with drawing_style():
        return draw_race(table, title or f"All-reduces {table.where}: which is the fastest?")


def draw_race(table: Race, title: str) -> Picture:
    """The picture of a race that was run. Use within `drawing_style`."""
    figure = new_figure(WIDTH, _TOP + _HEIGHT + _GAP + _BAND + 50)
    add_titles(figure, title, _subtitle(table))
    width = WIDTH - LEFT - RIGHT
    lines = add_axes(figure, LEFT, _TOP, width, _HEIGHT)
    band = add_axes(figure, LEFT, _TOP + _HEIGHT + _GAP, width, _BAND)
    for axes in (lines, band):
        label_sizes(axes, table.amounts) if table.along == "bytes" else label_ranks(axes, table.amounts)
    lines.tick_params(axis="x", length=0, labelbottom=False)
    _draw_lines(lines, table)
    _draw_band(band, lines, table)
    ends = {name: (ALL_REDUCES.index(name), times[-1]) for name, times in table.seconds.items()}
    name_lines(add_canvas(figure), lines, ends, _TOP, _HEIGHT)
    return Picture(figure, describe_race(table, title))


def tell_leads(table: Race) -> str:
    """Who leads from where on, in words: "tree, from 64 KiB ring"."""
    first, *others = table.leads
    return ", ".join(
        [first.algorithm, *(f"from {amount_in_words(table, lead.first)} {lead.algorithm}" for lead in others)]
    )


def _draw_lines(axes: Axes, table: Race) -> None:
    times = [time for line in table.seconds.values() for time in line]
    label_seconds(axes, min(times), max(times))
    every = max(1, len(table.amounts) // 8)
    for order, (name, line) in enumerate(table.seconds.items()):
        draw_line(axes, table.amounts, line, ALL_REDUCES.index(name), markevery=(order % every, every))


def _draw_band(band: Axes, lines: Axes, table: Race) -> None:
    """The fastest, as areas with name and marker; dashed lines up into the plot where they change places."""
    band.set(ylim=(0, 1), yticks=[])
    band.spines[["left", "bottom"]].set_visible(False)
    name_axis(band, "size of the tensor" if table.along == "bytes" else "ranks")
    per_pixel = math.log(table.amounts[-1] / table.amounts[0]) / (WIDTH - LEFT - RIGHT)
    edges = [edge(table, lead) for lead in table.leads] + [float(table.amounts[-1])]
    for lead, left, right in zip(table.leads, edges[:-1], edges[1:], strict=True):
        _fill_lead(band, lead, left, right, math.log(right / left) / per_pixel)
        if lead is not table.leads[0]:
            lines.axvline(left, color=INK, linewidth=points(1.2), linestyle=":", zorder=1)


def _fill_lead(band: Axes, lead: Lead, left: float, right: float, width: float) -> None:
    number = ALL_REDUCES.index(lead.algorithm)
    fill, middle = color_of(number), math.sqrt(left * right)
    band.axvspan(left, right, facecolor=fill, edgecolor=INK, linewidth=points(0.8))
    look: dict[str, Any] = {"color": text_on(fill), "ha": "center", "va": "center_baseline"}
    if text_width(lead.algorithm, SMALL + 1) < width - 8:
        band.text(middle, 0.5, lead.algorithm, size=points(SMALL + 1), **look)
    elif width > 12:
        band.plot(middle, 0.5, MARKERS[number], color=text_on(fill), markersize=points(8))


def edge(table: Race, lead: Lead) -> float:
    """Where a lead begins on the axis. Between two numbers of ranks there is nothing: it begins half-way."""
    if table.along == "bytes" or lead.starts == 0:
        return float(lead.first)
    return math.sqrt(table.amounts[lead.starts - 1] * lead.first)


def _subtitle(table: Race) -> str:
    text = "predicted; the band below says which is the fastest"
    return f"{text}: {tell_leads(table)}" if len(table.leads) <= 3 else text


def describe_race(table: Race, title: str) -> str:
    """A race in words, as alternative text."""
    first, last = (amount_in_words(table, amount) for amount in (table.amounts[0], table.amounts[-1]))
    lines = [
        f"{name} from {format_seconds(times[0])} to {format_seconds(times[-1])}"
        for name, times in table.seconds.items()
    ]
    return (
        f"{title} Predicted seconds, both axes logarithmic, from {first} to {last}: {'; '.join(lines)}. "
        f"The fastest: {tell_leads(table)}."
    )


def amount_in_words(table: Race, amount: int) -> str:
    """An amount on the axis: "64 KiB", "128 ranks"."""
    return format_bytes(amount) if table.along == "bytes" else f"{amount:,} ranks"
