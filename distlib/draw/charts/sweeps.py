"""What came out of an experiment, over a number that was varied: a line for each way of doing it, a dot for each run.

100% │  ●───●───●·
     │      ·   ·╲·   with warm-up         the line joins the medians; a mean would hide that
 50% │            ●                        one of five runs has gone astray
     └────────────·──
        1   4   16  workers
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from distlib.draw.charts.log_axes import (
    LEFT,
    MARKERS,
    RIGHT,
    draw_line,
    label_ranks,
    label_values,
    name_axis,
    name_lines,
    set_ticks,
)
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, new_figure
from distlib.draw.style import INK, WIDTH, drawing_style, format_number, line_color_of, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = Mapping[int, float | Sequence[float]]
_Runs = dict[int, list[float]]
_TOP, _HEIGHT = 62.0, 300.0  # CSS pixels


def sweep(
    results: Mapping[str, Results],
    *,
    along: str,
    title: str,
    subtitle: str = "",
    show: Callable[[float], str] = format_number,
    percent: bool = False,
) -> Picture:
    """Draw what several ways of doing something give, over a number that grows by factors (workers, a batch size).

    Args:
        results: name of the way → number → what came out: one value, or one for each repetition (seed). At most 7 ways;
            not every way needs every number.
        along: what the number is: "workers". Written below the axis.
        title, subtitle: the headline and the line below it.
        show: how a value is written on the axis.
        percent: values are shares from 0 to 1, on a level axis from 0% to 100%. Else they are above 0, and the axis is
            logarithmic.

    Raises:
        ValueError: other than 1 to 7 ways, a way without results, fewer than 2 different numbers, one of 0 or
            less, or a value that the axis cannot show.
    """
    runs = {name: _repeated(name, ways, percent) for name, ways in results.items()}
    numbers = sorted({number for way in runs.values() for number in way})
    if not 1 <= len(runs) <= len(MARKERS) or len(numbers) < 2:
        raise ValueError(
            f"expected 1 to {len(MARKERS)} ways and at least 2 different numbers, "
            f"got {len(runs)} and {len(numbers)}: a line needs two points"
        )
    if numbers[0] <= 0:
        raise ValueError(f"expected numbers above 0, since their axis is logarithmic, got {numbers[0]}: leave it out")
    write = "{:.0%}".format if percent else show
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + _HEIGHT + 50)
        add_titles(figure, title, "; ".join(filter(None, (subtitle, _tell_spread(runs)))))
        axes = add_axes(figure, LEFT, _TOP, WIDTH - LEFT - RIGHT, _HEIGHT)
        label_ranks(axes, numbers)
        name_axis(axes, along)
        _label_values(axes, runs, write, percent)
        for order, way in enumerate(runs.values()):
            _draw_way(axes, order, way)
        ends = {name: (order, statistics.median(way[max(way)])) for order, (name, way) in enumerate(runs.items())}
        name_lines(add_canvas(figure), axes, ends, _TOP, _HEIGHT)
        return Picture(figure, _alt(runs, along, title, write))


def _repeated(name: str, results: Results, percent: bool) -> _Runs:
    """The values of one way, as a list for each number; checked."""
    runs = {number: [float(value) for value in _values(found)] for number, found in sorted(results.items())}
    for number, values in runs.items():
        if not values or not all(0 <= value <= 1 if percent else value > 0 for value in values):
            raise ValueError(
                f"expected values {'from 0 to 1' if percent else 'above 0'} for {name!r} at {number}, got {values}"
            )
    if not runs:
        raise ValueError(f"expected results for {name!r}, got none")
    return runs


def _values(found: float | Sequence[float]) -> Sequence[float]:
    return found if isinstance(found, Sequence) else [found]


def _tell_spread(runs: Mapping[str, _Runs]) -> str:
    repeats = max(len(values) for way in runs.values() for values in way.values())
    return f"line: median of {repeats} runs, dots: the runs" if repeats > 1 else ""


def _label_values(axes: Axes, runs: Mapping[str, _Runs], write: Callable[[float], str], percent: bool) -> None:
    if percent:
        axes.set_ylim(0, 1)
        set_ticks(axes, "y", [0, 0.25, 0.5, 0.75, 1], write)
        axes.grid(axis="y", color=INK, alpha=0.25, linewidth=points(0.8))
    else:
        everything = [value for way in runs.values() for values in way.values() for value in values]
        label_values(axes, min(everything), max(everything), write)


def _draw_way(axes: Axes, order: int, way: _Runs) -> None:
    runs = [(number, value) for number, values in way.items() if len(values) > 1 for value in values]
    axes.plot(
        [number for number, _ in runs],
        [value for _, value in runs],
        linestyle="",
        marker="o",
        clip_on=False,
        markersize=points(4.5),
        color=line_color_of(order),
        alpha=0.55,
        markeredgewidth=0,
    )
    draw_line(axes, list(way), [*map(statistics.median, way.values())], order)


def _alt(runs: Mapping[str, _Runs], along: str, title: str, write: Callable[[float], str]) -> str:
    told = [f"{name}: {'; '.join(_tell(n, values, write) for n, values in way.items())}." for name, way in runs.items()]
    return f"{title}. Over {along}. {' '.join(told)}"


def _tell(number: int, values: list[float], write: Callable[[float], str]) -> str:
    text = f"{number:,} {write(statistics.median(values))}"
    return f"{text} ({write(min(values))} to {write(max(values))})" if len(values) > 1 else text
