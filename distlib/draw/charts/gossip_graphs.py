"""Graphs of ranks that talk to each other, and how far a number has come on each: a circle for each graph.

   ●─────●            a filled circle: the rank has heard of it; in it, how much of it the rank has
 ╱         ╲
○           ●         a line: one of the two sends to the other in a round
 ╲         ╱
   ○─────●
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distlib.draw.charts.rank_discs import in_a_circle
from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BODY, INK, SKY, SMALL, WIDTH, drawing_style, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _FOOT, _MOST, _RANKS = 86.0, 34.0, 4, 24
_DOT = 31.0  # CSS pixels


def gossip_graphs(
    graphs: Mapping[str, Sequence[Sequence[float]]],
    held: Mapping[str, Sequence[float]],
    *,
    title: str,
    subtitle: str,
    notes: Mapping[str, str] | None = None,
) -> Picture:
    """Draw who talks to whom, and what each rank has.

    Args:
        graphs: name → the mixing matrix, as rows: rank i takes from rank j if row i has a weight for it. At most 4
            graphs, at most 24 ranks in each.
        held: name → what each rank has, for example after some rounds of gossip.
        title, subtitle: the headline and the line below it.
        notes: name → words below the graph.

    Raises:
        ValueError: no graph or too many, too many ranks, or numbers for other graphs or ranks.
    """
    sizes = {name: len(matrix) for name, matrix in graphs.items()}
    if not 1 <= len(graphs) <= _MOST or max(sizes.values()) > _RANKS:
        raise ValueError(f"expected 1 to {_MOST} graphs of at most {_RANKS} ranks, got {sizes}")
    if {name: len(values) for name, values in held.items()} != sizes:
        raise ValueError(f"expected a number for each rank of each graph, got {dict(held)} for {sizes}")
    with drawing_style():
        panel = (WIDTH - 20) / max(3, len(graphs))
        radius = (panel - _DOT) / 2 - 8
        figure = new_figure(WIDTH, _TOP + 2 * radius + _DOT + _FOOT + 8)
        add_titles(figure, title, subtitle)
        canvas = add_canvas(figure)
        for number, (name, matrix) in enumerate(graphs.items()):
            middle = 10 + (number + 0.5) * panel
            size = points(fitting_size(name, BODY + 1, panel - 10))
            canvas.text(middle, _TOP - 14, name, size=size, weight="bold", color=INK, ha="center")
            _draw_graph(canvas, matrix, held[name], (middle, _TOP + 8 + radius + _DOT / 2), radius)
            note = (notes or {}).get(name, "")
            size = points(fitting_size(note, SMALL + 1, panel - 10))
            bottom = _TOP + 2 * radius + _DOT + _FOOT
            canvas.text(middle, bottom, note, size=size, color=INK, ha="center")
        told = (_tell(name, matrix, held[name], (notes or {}).get(name, "")) for name, matrix in graphs.items())
        return Picture(figure, " ".join([f"{title}: {subtitle}.", *told]))


def _draw_graph(
    canvas: Axes, matrix: Sequence[Sequence[float]], held: Sequence[float], middle: tuple[float, float], radius: float
) -> None:
    spots = in_a_circle(len(matrix), middle, radius, radius)
    for one, other in _edges(matrix):
        canvas.plot(*zip(spots[one], spots[other], strict=True), color=INK, alpha=0.45, linewidth=points(1), zorder=1)
    for (x, y), value in zip(spots, held, strict=True):
        color = SKY if value else "#FFFFFF"
        look: dict[str, Any] = {"markerfacecolor": color, "markeredgecolor": INK, "markeredgewidth": points(1)}
        canvas.plot([x], [y], "o", markersize=points(_DOT), zorder=3, **look)
        if value:
            size = points(SMALL)
            canvas.text(
                x, y, f"{value:.1f}", size=size, color=text_on(color), ha="center", va="center_baseline", zorder=4
            )


def _edges(matrix: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """The pairs of ranks of which at least one takes from the other."""
    pairs = ((one, other) for other in range(len(matrix)) for one in range(other))
    return [(one, other) for one, other in pairs if matrix[one][other] or matrix[other][one]]


def _tell(name: str, matrix: Sequence[Sequence[float]], held: Sequence[float], note: str) -> str:
    heard = sum(value != 0 for value in held)
    values = ", ".join(f"{value:.1f}" for value in held)
    return (
        f"{name}: {len(_edges(matrix))} lines between {len(matrix)} ranks, {heard} of them have heard of it: "
        f"{values}.{f' Below: {note}.' if note else ''}"
    )
