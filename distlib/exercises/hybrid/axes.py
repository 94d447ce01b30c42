"""Who is in a group with whom, and the groups that usual mistakes make. The last axis varies fastest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Sizes = Mapping[str, int]  # by axis
Groups = list[list[int]]


def coordinates_of(rank: int, sizes: Sizes) -> dict[str, int]:
    """Where a rank stands, by axis."""
    found: dict[str, int] = {}
    for axis in reversed(list(sizes)):
        rank, found[axis] = divmod(rank, sizes[axis])
    return {axis: found[axis] for axis in sizes}


def groups_of(sizes: Sizes, axis: str) -> Groups:
    """The ranks that differ along one axis only, group by group."""
    return groups_by(sizes, [other for other in sizes if other != axis])


def groups_by(sizes: Sizes, alike: Sequence[str]) -> Groups:
    """The ranks that have the same coordinates along the axes `alike`, group by group."""
    found: dict[tuple[int, ...], list[int]] = {}
    for rank in range(math.prod(sizes.values())):
        where = coordinates_of(rank, sizes)
        found.setdefault(tuple(where[axis] for axis in alike), []).append(rank)
    return list(found.values())


def first_axis_fastest(sizes: Sizes, axis: str) -> Groups:
    """The groups where the first axis varies fastest."""
    return groups_of(dict(reversed(list(sizes.items()))), axis)


def in_blocks(sizes: Sizes, axis: str) -> Groups:
    """Ranks that stand next to each other, as many as the axis has."""
    numbers, size = list(range(math.prod(sizes.values()))), sizes[axis]
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]
