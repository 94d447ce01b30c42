"""Even shares: what a framework splits over its devices must divide by their number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Axis = str | Sequence[str] | None


def replica_batch(global_batch: int, replicas: int) -> int:
    """How many samples of a global batch each replica gets.

    Raises:
        ValueError: a number is below 1, or they don't divide.
    """
    if global_batch < 1 or replicas < 1:
        raise ValueError(f"expected a batch and replicas, at least 1 each, got {global_batch} and {replicas}")
    if global_batch % replicas:
        below = global_batch - global_batch % replicas
        fitting = f"{below + replicas}" if below == 0 else f"{below} or {below + replicas}"
        raise ValueError(
            f"a global batch of {global_batch} does not divide by {replicas} replicas: some would get more samples "
            f"than others, and their gradients would not weigh the same. Use {fitting}."
        )
    return global_batch // replicas


def shard_shape(shape: Sequence[int], mesh: Mapping[str, int], axes: Sequence[Axis]) -> tuple[int, ...]:
    """The shape of the part of an array that each device of a mesh holds.

    Args:
        shape: of the whole array.
        mesh: the number of devices along each of its axes, by name, such as JAX's `mesh.shape`.
        axes: for each dimension the mesh axis, or axes, that split it; None for one that is not split. As in JAX's
            PartitionSpec: dimensions that are left out at the end are not split.

    Raises:
        ValueError: an axis that the mesh lacks or that splits two dimensions, more axes than dimensions, or a
            dimension that does not divide.
    """
    if len(axes) > len(shape):
        raise ValueError(f"expected at most {len(shape)} axes for an array of shape {tuple(shape)}, got {tuple(axes)}")
    names = [_names(axis) for axis in axes] + [()] * (len(shape) - len(axes))
    used = [name for several in names for name in several]
    for name in used:
        if name not in mesh:
            raise ValueError(f"the mesh has the axes {', '.join(mesh)}, and none called {name!r}")
        if used.count(name) > 1:
            raise ValueError(f"the mesh axis {name!r} splits two dimensions of the same array: it can split one")
    return tuple(
        _divide(dimension, size, several, mesh)
        for dimension, (size, several) in enumerate(zip(shape, names, strict=True))
    )


def _names(axis: Axis) -> tuple[str, ...]:
    return () if axis is None else (axis,) if isinstance(axis, str) else tuple(axis)


def _divide(dimension: int, size: int, names: Sequence[str], mesh: Mapping[str, int]) -> int:
    devices = math.prod(mesh[name] for name in names)
    if size % devices:
        what = f"the {devices} devices of the mesh axis {' × '.join(names)}"
        raise ValueError(f"dimension {dimension} has {size} elements, which do not divide by {what}")
    return size // devices
