"""What came out of an experiment over two numbers that were varied: a cell for each pair, its value written in it.

         rate   0.1   0.4   1.6
workers   1   │ 96% ╔═97%═╗ 97% │     the darker, the better
          4   │ 94% ║ 96% ║ 97% │     lines over the cells: where a rule says the best one is
         16   │ 79%   94%   96% │
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, new_figure, text_width
from distlib.draw.style import (
    BODY,
    DARK_PAPER,
    INK,
    LIGHT_PAPER,
    SMALL,
    VERMILLION,
    WIDTH,
    drawing_style,
    format_number,
    points,
    text_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Mapping[float, Mapping[float, float]]
_LEFT, _TOP, _CELL = 90.0, 92.0, 40.0  # CSS pixels
_PALE, _FULL = (0xE8, 0xF1, 0xF8), (0x00, 0x4A, 0x75)  # the ends of the scale of colors
_STYLES = (("-", "o"), ((0, (4, 3)), "s"), ((0, (1, 2)), "^"))


def heat_map(
    values: Rows,
    *,
    across: str,
    down: str,
    title: str,
    subtitle: str = "",
    show: Callable[[float], str] = format_number,
    shade: Callable[[float], float] = float,
    lines: Mapping[str, Mapping[float, float]] | None = None,
) -> Picture:
    """Draw a table of values as cells, the darker the larger.

    Args:
        values: row → column → value, with the same columns in every row. Rows and columns are numbers above 0.
        across, down: what the columns and the rows are: "rate", "workers".
        title, subtitle: the headline and the line below it.
        show: how a value is written in its cell.
        shade: value to what decides how dark its cell is. Take one that spreads out the values that matter.
        lines: name → row → a place in that row, as a number of the same kind as the columns; between two columns it
            stands at the place of its logarithm. Places that lie outside of the columns are left out. At most 3.

    Raises:
        ValueError: no rows, rows with different columns, fewer than 2 columns, or more than 3 lines.
    """
    rows, lines = list(values), lines or {}
    columns = sorted(values[rows[0]]) if rows else []
    if len(columns) < 2 or any(sorted(values[row]) != columns for row in rows) or len(lines) > len(_STYLES):
        raise ValueError(
            f"expected rows with the same columns, at least 2, and at most {len(_STYLES)} lines, got columns "
            f"{[sorted(values[row]) for row in rows]} and {len(lines)} lines"
        )
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + _CELL * len(rows) + 12)
        add_titles(figure, title, subtitle)
        axes = add_axes(figure, _LEFT, _TOP, WIDTH - _LEFT - 20, _CELL * len(rows))
        _label(axes, rows, columns, across, down)
        _draw_cells(axes, values, columns, show, shade)
        canvas, right = add_canvas(figure), WIDTH - 20.0
        for number, (name, line) in reversed(list(enumerate(lines.items()))):
            _draw_line(axes, number, {rows.index(row): _x_of(columns, at) for row, at in line.items()})
            right = _name_line(canvas, number, name, right)
        return Picture(figure, _alt(values, columns, across, down, title, show) + _tell_lines(lines))


def _label(axes: Axes, rows: Sequence[float], columns: Sequence[float], across: str, down: str) -> None:
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(len(columns)), [format_number(column) for column in columns])
    axes.set_yticks(range(len(rows)), [format_number(row) for row in rows])
    axes.tick_params(length=0, labelsize=points(BODY))
    axes.set_xlabel(across, size=points(BODY))
    axes.set_ylabel(down, size=points(BODY))


def _draw_cells(
    axes: Axes, values: Rows, columns: Sequence[float], show: Callable[[float], str], shade: Callable[[float], float]
) -> None:
    from matplotlib.patches import Rectangle

    shades = [shade(value) for row in values.values() for value in row.values()]
    low, span = min(shades), (max(shades) - min(shades)) or 1.0
    for y, row in enumerate(values.values()):
        for x, column in enumerate(columns):
            color = _color((shade(row[column]) - low) / span)
            axes.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=color, linewidth=0))
            axes.text(
                x, y, show(row[column]), ha="center", va="center", size=points(BODY), color=text_on(color), zorder=5
            )


def _color(part: float) -> str:
    """From pale (0) to full (1)."""
    channels = [round(pale + part * (full - pale)) for pale, full in zip(_PALE, _FULL, strict=True)]
    return "#" + "".join(f"{channel:02X}" for channel in channels)


def _x_of(columns: Sequence[float], at: float) -> float | None:
    """Where a number stands between the middles of the columns: 0.5 for half-way from the first to the second."""
    for left, (low, high) in enumerate(pairwise(columns)):
        if low <= at * (1 + 1e-9) and at <= high * (1 + 1e-9):
            return left + max(0.0, math.log(at / low)) / math.log(high / low)
    return None


def _draw_line(axes: Axes, number: int, xs: Mapping[int, float | None]) -> None:
    """A colored line with a pale and a dark edge, so that it is seen on every cell and on both papers."""
    found = [(x, row + 0.3) for row, x in sorted(xs.items()) if x is not None]
    dashes, marker = _STYLES[number]
    for color, width in ((DARK_PAPER, 4.4), (LIGHT_PAPER, 3.6), (VERMILLION, 2.0)):
        axes.plot(
            [x for x, _ in found],
            [y for _, y in found],
            color=color,
            linewidth=points(width),
            linestyle="-" if color != VERMILLION else dashes,
            marker=marker,
            markersize=points(4 + width),
            zorder=3,
        )


def _name_line(canvas: Axes, number: int, name: str, right: float) -> float:
    """Write what a line is at the top right, so that it ends at `right`. Returns where the next may end."""
    dashes, marker = _STYLES[number]
    canvas.text(right, 24, name, size=points(SMALL + 1), color=INK, ha="right", va="baseline")
    left = right - text_width(name, SMALL + 1) - 8
    canvas.plot(
        [left - 34, left - 17, left],
        [20] * 3,
        color=VERMILLION,
        linestyle=dashes,
        linewidth=points(2),
        marker=marker,
        markevery=[1],
        markersize=points(6),
    )
    return left - 52


def _alt(
    values: Rows, columns: Sequence[float], across: str, down: str, title: str, show: Callable[[float], str]
) -> str:
    """The picture in words, as alternative text."""
    head = ", ".join(format_number(column) for column in columns)
    rows = [f"{format_number(row)}: {', '.join(show(cells[c]) for c in columns)}" for row, cells in values.items()]
    return f"{title}. {down} down, {across} across ({head}). {'; '.join(rows)}."


def _tell_lines(lines: Mapping[str, Mapping[float, float]]) -> str:
    return "".join(
        f" {name}: {', '.join(f'{format_number(column)} at {format_number(row)}' for row, column in line.items())}."
        for name, line in lines.items()
    )
