"""A mesh of ranks: as a cube with a line along each axis, and on the nodes of a cluster.

   4 ─────── 5                 dp 4 × tp 3: a column is a node
  ╱         ╱ │                ●─●─●─●     tp: down the column, inside a node
0 ─────── 1   7                ●─●─●─●     dp: along the row, between nodes
│         │ ╱                  ●─●─●─●
2 ─────── 3
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BLUE, BODY, GREEN, INK, VERMILLION, WIDTH, color_of, drawing_style, points
from distlib.training.mesh.coordinates import check_sizes, coordinates_of, mesh_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Spot = tuple[float, float]

_TOP = 56.0  # CSS pixels: the titles
_DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.62, -0.42))  # of the last axis, of the one before it, and of the third
_EDGE = 130.0  # CSS pixels of a cube
_ROW, _COLUMN = 25.0, 48.0  # CSS pixels from a rank to the next one inside a node, and between nodes
_THICK, _THIN = 5.0, 1.5  # CSS pixels
_COLORS = {"dp": BLUE, "pp": GREEN, "tp": VERMILLION}  # of the usual axes
_MOST_RANKS, _MOST_NODES = 8, 16  # in a node, in a picture


def mesh_cube(sizes: Mapping[str, int], *, title: str) -> Picture:
    """Draw a mesh of at most three axes: a rank at each corner, a line along each axis.

    Args:
        sizes: name → size, the axis that varies fastest last; each at most 4.
        title: the headline.

    Raises:
        ValueError: more than three axes, or more than 4 ranks along one; and see `check_sizes`.
    """
    check_sizes(sizes)
    if len(sizes) > 3 or max(sizes.values()) > 4:
        raise ValueError(f"expected at most 3 axes with at most 4 ranks along each, got {dict(sizes)}")
    with drawing_style():
        return _draw_cube(sizes, title)


def mesh_on_nodes(
    meshes: Mapping[str, Mapping[str, int]], ranks_per_node: int, *, title: str, thick: str = ""
) -> Picture:
    """Draw how meshes of two axes lie on nodes: a frame for each node, a line for each group.

    Args:
        meshes: words → sizes by axis, the axis that varies fastest last. All have the same axes and number of ranks.
        ranks_per_node: at most 8. Rank r is on node r // ranks_per_node; at most 16 nodes in all meshes together.
        title: the headline.
        thick: the axis whose lines are thick, for example because it sends the most.

    Raises:
        ValueError: nothing to draw, other axes, too many ranks, or nodes that are not full.
    """
    kinds = {(frozenset(sizes), math.prod(sizes.values())) for sizes in meshes.values()}
    if len(kinds) != 1 or any(len(sizes) != 2 for sizes in meshes.values()):
        raise ValueError(f"expected meshes with the same two axes and as many ranks, got {dict(meshes) or 'nothing'}")
    ((_, world_size),) = kinds
    nodes, left_over = divmod(world_size, ranks_per_node)
    if left_over or ranks_per_node > _MOST_RANKS or nodes * len(meshes) > _MOST_NODES:
        raise ValueError(
            f"expected full nodes of at most {_MOST_RANKS} ranks, at most {_MOST_NODES} nodes in a picture, "
            f"got {len(meshes)} meshes of {world_size} ranks on nodes of {ranks_per_node}"
        )
    with drawing_style():
        return _draw_nodes(meshes, nodes, ranks_per_node, title, thick)


def _draw_cube(sizes: Mapping[str, int], title: str) -> Picture:
    names = list(sizes)
    corners = [_corner(coordinates_of(rank, sizes), names) for rank in range(math.prod(sizes.values()))]
    left, top = (min(values) for values in zip(*corners, strict=True))
    spots = [(x - left + 50, y - top + _TOP + 34) for x, y in corners]
    figure = new_figure(WIDTH, max(y for _, y in spots) + 40)
    add_titles(figure, title, "a line joins ranks that differ along one axis only")
    canvas = add_canvas(figure)
    _draw_groups(canvas, sizes, spots, dict.fromkeys(names, _THICK))
    for rank, (x, y) in enumerate(spots):
        canvas.plot([x], [y], "o", markersize=points(30), color=INK, markerfacecolor="#FFFFFF", zorder=3)
        size = points(BODY)
        canvas.text(
            x, y, str(rank), size=size, weight="bold", color="#000000", ha="center", va="center_baseline", zorder=4
        )
    right = max(x for x, _ in spots) + 70
    for row, name in enumerate(reversed(names)):
        y = _TOP + 40 + 30 * row
        _line(canvas, (right, y), (right + 34, y), _color(name, names), _THICK)
        words = f"{name}: {_groups_in_words(sizes, name)}"
        size = points(fitting_size(words, BODY, WIDTH - right - 60))
        canvas.text(right + 46, y, words, size=size, color=INK, va="center_baseline")
    told = (f"Along {name}: {_groups_in_words(sizes, name)}." for name in names)
    return Picture(figure, " ".join([f"{title}.", *told]))


def _corner(coordinates: Mapping[str, int], names: Sequence[str]) -> Spot:
    steps = [(coordinates[name], way) for name, way in zip(reversed(names), _DIRECTIONS, strict=False)]
    return _EDGE * sum(count * x for count, (x, _) in steps), _EDGE * sum(count * y for count, (_, y) in steps)


def _groups_in_words(sizes: Mapping[str, int], name: str) -> str:
    """ "0 and 1, 2 and 3"."""
    return ", ".join(" and ".join(map(str, group)) for group in mesh_groups(sizes, name))


def _draw_nodes(
    meshes: Mapping[str, Mapping[str, int]], nodes: int, ranks_per_node: int, title: str, thick: str
) -> Picture:
    names = sorted(next(iter(meshes.values())))
    panel, top = (WIDTH - 20) / len(meshes), _TOP + 40
    figure = new_figure(WIDTH, top + _ROW * ranks_per_node + 14)
    add_titles(figure, title, f"a frame is a node of {ranks_per_node} ranks; a line is a group of ranks")
    canvas = add_canvas(figure)
    widths = {name: _THICK if name == thick else _THIN for name in names}
    for number, (words, sizes) in enumerate(meshes.items()):
        left, step = 10 + number * panel, min(_COLUMN, (panel - 30) / nodes)
        size = points(fitting_size(words, BODY, panel - 24))
        canvas.text(left + 4, top - 12, words, size=size, weight="bold", color=INK)
        for node in range(nodes):
            _draw_frame(canvas, left + node * step + 5, top, step - 10, _ROW * ranks_per_node)
        ranks = (divmod(rank, ranks_per_node) for rank in range(nodes * ranks_per_node))
        spots = [(left + (node + 0.5) * step, top + (place + 0.5) * _ROW) for node, place in ranks]
        _draw_groups(canvas, sizes, spots, widths)
        canvas.plot(*zip(*spots, strict=True), "o", markersize=points(9), color=INK, zorder=3)
    for number, name in enumerate(names):
        x = WIDTH - 90 * (len(names) - number)
        _line(canvas, (x, 20), (x + 34, 20), _color(name, names), widths[name])
        canvas.text(x + 42, 20, name, size=points(BODY), color=INK, va="center_baseline")
    told = (f"{words}: {_lie_in_words(sizes, ranks_per_node)}." for words, sizes in meshes.items())
    where = f"{nodes * ranks_per_node} ranks, {ranks_per_node} to a node."
    return Picture(figure, " ".join([f"{title}.", where, *told]))


def _draw_frame(canvas: Axes, left: float, top: float, width: float, height: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    frame = FancyBboxPatch((left, top), width, height, boxstyle="round,pad=0,rounding_size=6", facecolor="none")
    frame.set(edgecolor=INK, linewidth=points(1))
    canvas.add_patch(frame)


def _draw_groups(canvas: Axes, sizes: Mapping[str, int], spots: Sequence[Spot], widths: Mapping[str, float]) -> None:
    """A line through each group along each axis."""
    for name in sizes:
        for group in mesh_groups(sizes, name):
            for one, other in pairwise(group):
                _line(canvas, spots[one], spots[other], _color(name, sizes), widths[name])


def _line(canvas: Axes, start: Spot, end: Spot, color: str, width: float) -> None:
    canvas.plot(*zip(start, end, strict=True), color=color, linewidth=points(width), solid_capstyle="round", zorder=2)


def _color(name: str, names: Iterable[str]) -> str:
    """An axis has the same color in all pictures, whatever the order of the axes and whichever others there are."""
    return _COLORS.get(name) or color_of(len(_COLORS) + sorted(names).index(name))


def _lie_in_words(sizes: Mapping[str, int], ranks_per_node: int) -> str:
    """Which groups stay inside a node."""
    told = []
    for name in sizes:
        nodes = ({rank // ranks_per_node for rank in group} for group in mesh_groups(sizes, name))
        where = "inside a node" if all(len(each) == 1 for each in nodes) else "across nodes"
        told.append(f"groups of {name} {where}")
    return ", ".join(told)
