"""A mesh as text: a row for each index of the last axis but one, a block for each index of those before.

dp 0                    dp 1
        tp 0  tp 1              tp 0  tp 1
pp 0       0     1      pp 0       4     5
pp 1       2     3      pp 1       6     7
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from distlib.arguments import check_integer
from distlib.training.mesh.coordinates import check_sizes, coordinates_of


def mesh_text(sizes: Mapping[str, int], ranks_per_node: int | None = None) -> str:
    """The ranks of a mesh, each at its coordinates.

    Args:
        sizes: name → size, the axis that varies fastest last. The last axis goes from left to right.
        ranks_per_node: where given, a "|" stands wherever the next rank is on another node, and each row ends with the
            numbers of its nodes.

    Raises:
        ValueError: see `check_sizes`; less than 1 rank per node.
    """
    check_sizes(sizes)
    if ranks_per_node is not None:
        check_integer("mesh_text", "ranks_per_node", ranks_per_node, 1)
    names, world_size = list(sizes), math.prod(sizes.values())
    columns, rows = sizes[names[-1]], sizes[names[-2]] if len(names) > 1 else 1
    width = max(len(f"{names[-1]} {columns - 1}"), len(str(world_size - 1)))
    lines = []
    for first in range(0, world_size, columns):
        if first % (columns * rows) == 0:
            lines += _head(first, sizes, names, width)
        lines.append(_row(range(first, first + columns), sizes, names, width, ranks_per_node))
    return "\n".join(line.rstrip() for line in lines)


def _head(first: int, sizes: Mapping[str, int], names: list[str], width: int) -> list[str]:
    """The lines above a block: where it stands along the outer axes, and the indices of the last axis."""
    outer = coordinates_of(first, sizes)
    title = ", ".join(f"{name} {outer[name]}" for name in names[:-2])
    columns = "  ".join(f"{names[-1]} {index}".rjust(width) for index in range(sizes[names[-1]]))
    return ([title] if title else []) + [" " * _label_width(sizes, names) + "  " + columns]


def _row(ranks: range, sizes: Mapping[str, int], names: list[str], width: int, ranks_per_node: int | None) -> str:
    label = f"{names[-2]} {coordinates_of(ranks[0], sizes)[names[-2]]}" if len(names) > 1 else ""
    text = label.ljust(_label_width(sizes, names)) + "  " + str(ranks[0]).rjust(width)
    nodes = [rank // (ranks_per_node or len(ranks)) for rank in ranks]
    for rank, before, node in zip(ranks[1:], nodes, nodes[1:], strict=False):
        text += (" |" if ranks_per_node and node != before else "  ") + str(rank).rjust(width)
    if ranks_per_node:
        named = sorted(set(nodes))
        text += f"    node{'s' * (len(named) > 1)} {', '.join(map(str, named))}"
    return text


def _label_width(sizes: Mapping[str, int], names: list[str]) -> int:
    return len(f"{names[-2]} {sizes[names[-2]] - 1}") if len(names) > 1 else 0
