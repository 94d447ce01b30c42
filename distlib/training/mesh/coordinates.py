"""Which rank stands where in a mesh, and which ranks form a group. Pure: no communicator is needed.

sizes = {"dp": 2, "pp": 2, "tp": 2}          the last axis varies fastest (row-major), as in torch's DeviceMesh

rank    0   1   2   3   4   5   6   7
dp      0   0   0   0   1   1   1   1
pp      0   0   1   1   0   0   1   1
tp      0   1   0   1   0   1   0   1

groups along tp   [0, 1] [2, 3] [4, 5] [6, 7]        ranks whose other coordinates are equal
groups along pp   [0, 2] [1, 3] [4, 6] [5, 7]
groups along dp   [0, 4] [1, 5] [2, 6] [3, 7]
along dp and pp   [0, 2, 4, 6] [1, 3, 5, 7]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from distlib.arguments import check_integer, described

Axes = str | Sequence[str]
"""One axis, "tp", or several, ("dp", "pp")."""


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Check that these are the sizes of a mesh.

    Raises:
        TypeError: not a mapping from names to sizes.
        ValueError: no axis, or a size below 1.
    """
    if not (isinstance(sizes, Mapping) and all(isinstance(name, str) for name in sizes)):
        raise TypeError(f'a mesh expected sizes by name, {{"dp": 2, "tp": 4}}, got {described(sizes)}')
    if not sizes:
        raise ValueError("a mesh expected at least one axis, got none")
    for name, size in sizes.items():
        check_integer("a mesh", name, size, 1)


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """ "dp 2 × pp 2 × tp 2"."""
    return " × ".join(f"{name} {size}" for name, size in sizes.items())


def check_world_size(sizes: Mapping[str, int], world_size: int) -> None:
    """Check that a mesh has a place for each rank of a world, and a rank for each place.

    Raises:
        ValueError: with both numbers, and with sizes that would do.
    """
    product = math.prod(sizes.values())
    if product != world_size:
        fitting = _fitting_sizes(sizes, world_size)
        hint = f": {', or '.join(fitting)} would fit" if fitting else ": no single size can be changed so that it fits"
        raise ValueError(f"expected a mesh of {world_size} ranks, got {sizes_in_words(sizes)} = {product}{hint}")


def _fitting_sizes(sizes: Mapping[str, int], world_size: int) -> list[str]:
    """For each axis the size with which the mesh would fit, where there is one."""
    others = {name: math.prod(size for other, size in sizes.items() if other != name) for name in sizes}
    return [f"{name} {world_size // rest}" for name, rest in others.items() if world_size % rest == 0]


def coordinates_of(rank: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Where a rank stands: name of the axis → index along it.

    Args:
        rank: from 0 to the product of the sizes, less 1.
        sizes: name → size, the axis that varies fastest last.

    Raises:
        ValueError: there is no such rank; see `check_sizes`.
    """
    check_sizes(sizes)
    check_integer("coordinates_of", "rank", rank, 0, math.prod(sizes.values()) - 1)
    coordinates = {}
    for name, size in reversed(list(sizes.items())):
        rank, coordinates[name] = divmod(rank, size)
    return {name: coordinates[name] for name in sizes}


def rank_at(coordinates: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The rank that stands at these coordinates: the inverse of `coordinates_of`.

    Args:
        coordinates: an index for every axis, in any order.

    Raises:
        ValueError: an axis is missing, unknown, or not that long.
    """
    check_sizes(sizes)
    if set(coordinates) != set(sizes):
        raise ValueError(f"rank_at expected an index for each of {', '.join(sizes)}, got {dict(coordinates)}")
    rank = 0
    for name, size in sizes.items():
        check_integer("rank_at", name, coordinates[name], 0, size - 1)
        rank = rank * size + coordinates[name]
    return rank


def axes_in_order(axes: Axes, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The axes that are meant, as a tuple, in the order in which they were given.

    Raises:
        ValueError: an axis that the mesh does not have, or one that is named twice; none.
    """
    if not isinstance(axes, str | Sequence):
        raise ValueError(f"expected the name of an axis, or several names, got {described(axes)}")
    named = (axes,) if isinstance(axes, str) else tuple(axes)
    for name in named:
        if name not in sizes:
            raise ValueError(f"expected axes of the mesh, which has {', '.join(sizes)}, got {name!r}")
    if not named or len(set(named)) < len(named):
        raise ValueError(f"expected at least one axis, and each axis once, got {named}")
    return named


def mesh_groups(sizes: Mapping[str, int], axes: Axes) -> list[list[int]]:
    """All groups along an axis, or over several axes: each has the ranks whose other coordinates are equal.

    Args:
        axes: "tp", or ("dp", "pp"). With several axes the last one that is named varies fastest inside a group.

    Returns:
        The same list on every rank: groups in the order of their first ranks; each rank in exactly one of them.

    Raises:
        ValueError: an axis that the mesh does not have; see `check_sizes`.
    """
    check_sizes(sizes)
    named = axes_in_order(axes, sizes)
    groups: dict[int, list[int]] = {}
    for rank in range(math.prod(sizes.values())):
        color, _ = color_and_key(rank, sizes, named)
        groups.setdefault(color, []).append(rank)
    return [sorted(group, key=lambda rank: color_and_key(rank, sizes, named)[1]) for group in groups.values()]


def color_and_key(rank: int, sizes: Mapping[str, int], axes: Sequence[str]) -> tuple[int, int]:
    """What a rank hands to `Communicator.split`: which group it is in, and its place there.

    The color is the first rank of the group, the one with index 0 along `axes`.
    """
    own = coordinates_of(rank, sizes)
    first = {name: 0 if name in axes else index for name, index in own.items()}
    return rank_at(first, sizes), rank_at({name: own[name] for name in axes}, {name: sizes[name] for name in axes})
