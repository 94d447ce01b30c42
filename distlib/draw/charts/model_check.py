"""The model against the machine: predicted seconds as a line, measured ones as dots, over the size of the tensor.

10 ms │             ╱ ring
      │        ●___╱          ●  measured        the distance between dot and line is the error
 1 ms │  ─────╱               ─  predicted
      └──────────────
error     5%   31%   2%       as a part of the measured time
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from distlib.draw.charts.log_axes import DASHES, LEFT, MARKERS, RIGHT, label_seconds, label_sizes, name_axis, name_lines
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, key_text, new_figure
from distlib.draw.style import (
    BODY,
    INK,
    PIXELS_PER_INCH,
    SMALL,
    WIDTH,
    drawing_style,
    format_bytes,
    format_seconds,
    line_color_of,
    points,
)
from distlib.worlds.calibration import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Comparisons = Sequence[Comparison]
_TOP, _HEIGHT, _ROW, _BELOW = 62.0, 300.0, 20.0, 74.0  # CSS pixels: titles, lines, a row of errors, the x axis


def predicted_and_measured(
    comparisons: Comparisons | Mapping[str, Comparisons], *, title: str | None = None
) -> Picture:
    """Draw what `calibration.compare` returns: how near to the measured seconds the predicted ones are.

    Args:
        comparisons: of one algorithm at several sizes; or name to that, for up to 7 algorithms:
            `{name: compare(world, cluster, name) for name in ("ring", "tree")}`.
        title: the headline.

    Raises:
        ValueError: fewer than 2 different sizes, or other than 1 to 7 algorithms.
        TypeError: something given is no Comparison.
    """
    runs = dict(comparisons) if isinstance(comparisons, Mapping) else {"all-reduce": comparisons}
    if not 1 <= len(runs) <= len(MARKERS):
        raise ValueError(f"expected comparisons of 1 to {len(MARKERS)} algorithms, got {len(runs)}")
    ordered = {name: _checked(name, run) for name, run in runs.items()}
    with drawing_style():
        return _draw(ordered, title or "Predicted and measured seconds")


def _checked(name: str, run: Comparisons) -> list[Comparison]:
    for comparison in run:
        if not isinstance(comparison, Comparison):
            raise TypeError(
                f"expected Comparisons for {name!r}, as calibration.compare returns them, got {comparison!r}"
            )
    sizes = len({comparison.nbytes for comparison in run})
    if sizes < 2:
        raise ValueError(f"expected at least 2 different sizes for {name!r}, got {sizes}: a line needs two points")
    return sorted(run, key=lambda comparison: comparison.nbytes)


def _draw(runs: Mapping[str, list[Comparison]], title: str) -> Picture:
    figure = new_figure(WIDTH, _TOP + _HEIGHT + _BELOW + _ROW * len(runs) + 8)
    add_titles(figure, title, f"error: {_errors_in_words(runs)}", title_room=560)
    axes = add_axes(figure, LEFT, _TOP, WIDTH - LEFT - RIGHT, _HEIGHT)
    everything = [comparison for run in runs.values() for comparison in run]
    label_sizes(axes, [comparison.nbytes for comparison in everything], margin=24)
    times = [seconds for comparison in everything for seconds in (comparison.predicted, comparison.measured)]
    label_seconds(axes, min(times), max(times))
    name_axis(axes, "size of the tensor")
    for number, run in enumerate(runs.values()):
        _draw_run(axes, run, number, aside=7 * (number - (len(runs) - 1) / 2))
    ends = {name: (number, run[-1].predicted) for number, (name, run) in enumerate(runs.items())}
    canvas = add_canvas(figure)
    name_lines(canvas, axes, ends, _TOP, _HEIGHT)
    _draw_key(canvas)
    _draw_errors(canvas, axes, runs)
    return Picture(figure, _alt(runs, title))


def _draw_run(axes: Axes, run: Comparisons, number: int, aside: float) -> None:
    """Line, dots, and a stem from each dot to the line; those are `aside` CSS pixels, so that none hides another."""
    from matplotlib.transforms import ScaledTranslation

    color, sizes = line_color_of(number), [comparison.nbytes for comparison in run]
    predicted, measured = [c.predicted for c in run], [c.measured for c in run]
    moved = axes.transData + ScaledTranslation(aside / PIXELS_PER_INCH, 0, axes.figure.dpi_scale_trans)
    axes.plot(sizes, predicted, color=color, linestyle=DASHES[number], linewidth=points(2))
    axes.plot(sizes, measured, MARKERS[number], color=color, markersize=points(9), zorder=3, transform=moved)
    axes.vlines(sizes, predicted, measured, color=color, linewidth=points(1), transform=moved)


def _draw_key(canvas: Axes) -> None:
    x = WIDTH - 20.0
    x -= key_text(canvas, x, 20, "measured") + 14
    canvas.plot(x, 16, "o", color=INK, markersize=points(9))
    x -= 26
    x -= key_text(canvas, x, 20, "predicted") + 8
    canvas.plot([x - 26, x], [16, 16], color=INK, linewidth=points(2))


def _draw_errors(canvas: Axes, axes: Axes, runs: Mapping[str, list[Comparison]]) -> None:
    """A row for each algorithm: the error below each size, as far as there is room, and whose it is at the right."""
    low, high = map(math.log, axes.get_xlim())
    top = _TOP + _HEIGHT + _BELOW
    canvas.text(LEFT - 10, top, "error", size=points(SMALL + 1), color=INK, ha="right")
    for number, (name, run) in enumerate(runs.items()):
        y, before = top + _ROW * number, -math.inf
        for comparison in run:
            x = LEFT + (WIDTH - LEFT - RIGHT) * (math.log(comparison.nbytes) - low) / (high - low)
            if x - before >= 44:
                canvas.text(x, y, f"{comparison.error:.0%}", size=points(SMALL + 1), color=INK, ha="center")
                before = x
        canvas.plot(WIDTH - RIGHT + 30, y - 4, MARKERS[number], color=line_color_of(number), markersize=points(8))
        canvas.text(WIDTH - RIGHT + 40, y, name, size=points(fitting_size(name, BODY, RIGHT - 44)), color=INK)


def _median(run: Comparisons) -> float:
    return statistics.median(comparison.error for comparison in run)


def _errors_in_words(runs: Mapping[str, list[Comparison]]) -> str:
    told = [f"{_median(run):.0%} in the median, at most {max(c.error for c in run):.0%}" for run in runs.values()]
    return "; ".join(f"{name} {words}" if len(runs) > 1 else words for name, words in zip(runs, told, strict=True))


def _alt(runs: Mapping[str, list[Comparison]], title: str) -> str:
    told = " ".join(f"{name}: {'; '.join(map(_tell, run))}." for name, run in runs.items())
    return f"{title}. Over the size of the tensor, both axes logarithmic. {told} Error: {_errors_in_words(runs)}."


def _tell(one: Comparison) -> str:
    times = f"{format_seconds(one.predicted)} predicted, {format_seconds(one.measured)} measured"
    return f"{format_bytes(one.nbytes)} {times}, error {one.error:.0%}"
