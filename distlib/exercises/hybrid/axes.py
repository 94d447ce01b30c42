"""The groups of ranks that usual mistakes make. The last axis varies fastest."""

from __future__ import annotations

import math
from collections.abc import Mapping

from distlib.training.mesh.coordinates import mesh_groups

Sizes = Mapping[str, int]  # by axis
Groups = list[list[int]]


def groups_by(sizes: Sizes, alike: str) -> Groups:
    """The ranks that have the same coordinate along one axis, group by group."""
    others = [axis for axis in sizes if axis != alike]
    return mesh_groups(sizes, others) if others else [[rank] for rank in range(sizes[alike])]


def first_axis_fastest(sizes: Sizes, axis: str) -> Groups:
    """The groups where the first axis varies fastest."""
    return mesh_groups(dict(reversed(list(sizes.items()))), axis)


def in_blocks(sizes: Sizes, axis: str) -> Groups:
    """Ranks that stand next to each other, as many as the axis has."""
    numbers, size = list(range(math.prod(sizes.values()))), sizes[axis]
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]
