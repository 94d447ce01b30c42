"""How a quantity goes on as time passes: a line for each way of doing it, such as the loss while a model is trained.

2 │╲
  │ ╲╲____ synchronous
1 │  ╲
  │   ╲___ asynchronous
  └──────────
    0   1   2   seconds
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from distlib.draw.charts.log_axes import DASHES, LEFT, MARKERS, RIGHT, label_values, name_lines
from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, new_figure
from distlib.draw.style import WIDTH, drawing_style, format_number, line_color_of, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = Sequence[tuple[float, float]]
_TOP, _HEIGHT = 62.0, 300.0  # CSS pixels
_MARKS = 6  # markers on a line, so that lines are told apart without their color


def curves(
    lines: Mapping[str, Line],
    *,
    along: str,
    values: str,
    title: str,
    subtitle: str = "",
    show: Callable[[float], str] = format_number,
) -> Picture:
    """Draw lines over a level axis that begins at 0; the values are on a logarithmic axis.

    Args:
        lines: name → (x, value) pairs, in the order of x. At most 7 lines. They may end at different x.
        along: what x is, with its unit: "virtual seconds". Written below the axis.
        values: what the values are: "loss". Written above the axis.
        title, subtitle: the headline and the line below it.
        show: how a value is written on the axis.

    Raises:
        ValueError: other than 1 to 7 lines, one with fewer than 2 points, x that does not rise from 0 or more, or a
            value that is not above 0.
    """
    if not 1 <= len(lines) <= len(MARKERS):
        raise ValueError(f"expected 1 to {len(MARKERS)} lines, got {len(lines)}")
    for name, line in lines.items():
        _check(name, line)
    numbers = [value for line in lines.values() for _, value in line]
    with drawing_style():
        figure = new_figure(WIDTH, _TOP + _HEIGHT + 50)
        add_titles(figure, title, subtitle)
        axes = add_axes(figure, LEFT, _TOP, WIDTH - LEFT - RIGHT, _HEIGHT)
        label_values(axes, min(numbers), max(numbers), show, values)
        axes.set_xlim(0, max(line[-1][0] for line in lines.values()))
        axes.set_xlabel(along, size=points(12))
        if all(float(x).is_integer() for line in lines.values() for x, _ in line):
            _label_whole(axes)
        for order, line in enumerate(lines.values()):
            every = max(1, len(line) // _MARKS)
            axes.plot(
                [x for x, _ in line],
                [value for _, value in line],
                color=line_color_of(order),
                linestyle=DASHES[order],
                linewidth=points(2.2),
                marker=MARKERS[order],
                markersize=points(7),
                markevery=(order * every // len(lines), every),
                zorder=3,
            )
        ends = {name: (order, line[-1][1]) for order, (name, line) in enumerate(lines.items())}
        name_lines(add_canvas(figure), axes, ends, _TOP, _HEIGHT)
        return Picture(figure, _describe(lines, along, title, show))


def _label_whole(axes: Axes) -> None:
    """Only whole numbers, such as of steps, on the x axis."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _check(name: str, line: Line) -> None:
    xs = [x for x, _ in line]
    if len(line) < 2 or xs[0] < 0 or xs != sorted(xs) or min(value for _, value in line) <= 0:
        raise ValueError(
            f"{name}: expected at least 2 points with places that rise from 0 or more and values above 0, "
            f"got {list(line)[:3]} …"
        )


def _describe(lines: Mapping[str, Line], along: str, title: str, show: Callable[[float], str]) -> str:
    """The picture in words, as alternative text."""
    told = [
        f"{name}: from {show(line[0][1])} to {show(line[-1][1])} at {format_number(float(f'{line[-1][0]:.3g}'))}"
        for name, line in lines.items()
    ]
    return f"{title}. Over {along}. {'; '.join(told)}."
