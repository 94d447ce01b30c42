"""What several ways of doing something cost: a row for each way, a panel for each quantity, each on a scale of its own.

                   operations            bytes sent
data parallel      ███ 2.7 million       ████████ 57,666
tensor parallel    ███ 2.7 million       ██ 15,360
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, label_end, new_figure
from distlib.draw.style import BLUE, BODY, INK, WIDTH, drawing_style, format_number, points

_TOP, _HEADING, _LEFT, _GAP, _ROW = 56, 30, 180, 20, 30  # CSS pixels: titles, panels' and ways' names, gaps, a way
_LABEL = 80  # CSS pixels: the number right of a bar


def compare_costs(
    ways: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    subtitle: str = "",
    show: Callable[[float], str] = format_number,
) -> Picture:
    """Draw several quantities of several ways next to one another.

    Args:
        ways: name of a way → name of a quantity → how much. 1 to 9 ways, which have the same 1 to 4 quantities.
        title, subtitle: the headline and the line below it.
        show: how a number is written next to its bar.

    Raises:
        ValueError: there is nothing to draw, too much, the ways have different quantities, or a number is below 0.
    """
    quantities = list(next(iter(ways.values()), {}))
    if not 1 <= len(ways) <= 9 or not 1 <= len(quantities) <= 4:
        raise ValueError(f"expected 1 to 9 ways with 1 to 4 quantities, got {len(ways)} with {len(quantities)}")
    for name, amounts in ways.items():
        if list(amounts) != quantities or min(amounts.values()) < 0:
            raise ValueError(f"{name}: expected {quantities} of at least 0, got {dict(amounts)}")
    with drawing_style():
        return _draw(ways, quantities, title, subtitle, show)


def _draw(
    ways: Mapping[str, Mapping[str, float]],
    quantities: list[str],
    title: str,
    subtitle: str,
    show: Callable[[float], str],
) -> Picture:
    top = _TOP if subtitle else _TOP - 20
    figure = new_figure(WIDTH, top + _HEADING + _ROW * len(ways) + 12)
    add_titles(figure, title, subtitle)
    canvas, width = add_canvas(figure), (WIDTH - _LEFT - 20) / len(quantities) - _GAP
    for row, name in enumerate(ways):
        y, size = top + _HEADING + _ROW * (row + 0.5), points(fitting_size(name, BODY, _LEFT - 24))
        canvas.text(_LEFT - 12, y, name, size=size, color=INK, ha="right", va="center_baseline")
    for number, quantity in enumerate(quantities):
        left, amounts = _LEFT + number * (width + _GAP), [way[quantity] for way in ways.values()]
        size = points(fitting_size(quantity, BODY, width))
        canvas.text(left, top + _HEADING - 8, quantity, size=size, weight="bold", color=INK)
        axes = add_axes(figure, left, top + _HEADING, width, _ROW * len(ways))
        room = (max(amounts) or 1) * (1 + _LABEL / (width - _LABEL))
        axes.set(xlim=(0, room), ylim=(len(ways) - 0.5, -0.5), xticks=[], yticks=[])
        axes.barh(range(len(ways)), amounts, 0.62, facecolor=BLUE, edgecolor=INK, linewidth=points(0.6))
        axes.spines["bottom"].set_visible(False)
        for row, amount in enumerate(amounts):
            label_end(axes, show(amount), amount, row)
    return Picture(figure, _alt(ways, title, show))


def _alt(ways: Mapping[str, Mapping[str, float]], title: str, show: Callable[[float], str]) -> str:
    """The picture in words, as alternative text."""
    told = (
        f"{name}: {', '.join(f'{show(amount)} {quantity}' for quantity, amount in amounts.items())}."
        for name, amounts in ways.items()
    )
    return " ".join([f"{title}.", *told])
