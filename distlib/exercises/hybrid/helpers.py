"""Exercise 12: what the checks of one part supply to the next: groups, bytes and seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from distlib.checks.supplied import helper
from distlib.exercises.hybrid.axes import Groups
from distlib.exercises.hybrid.layouts import layout_bytes, seconds_parts
from distlib.exercises.hybrid.plays import AXES
from distlib.network import Cluster
from distlib.training.mesh import coordinates

MOST_RANKS, MOST_AXES = 5_000, 20
MODEL = ("layers", "features", "heads", "sequence", "batch")


@helper()
def mesh_groups(sizes: Mapping[str, int], axis: str) -> Groups:
    """The groups of one axis.

    Raises:
        ValueError: an axis that is not there, sizes that are none, or more ranks than any mesh of this exercise has.
    """
    _check("sizes", sizes, list(sizes) if isinstance(sizes, Mapping) else [])
    if axis not in sizes:
        raise ValueError(f"mesh_groups: expected one of the axes {', '.join(sizes)}, got {axis!r}")
    return coordinates.mesh_groups(sizes, axis)


@helper()
def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    """The bytes that a rank of the first stage needs, by the formulas of the exercise.

    Raises:
        ValueError: something is missing in the model or in the layout, or there are too many ranks.
    """
    _check("model", model, MODEL)
    _check("layout", layout, AXES)
    return layout_bytes(model, layout)


@helper()
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    """The seconds that a step takes, by the formulas of the exercise.

    Raises:
        ValueError: something is missing in the model or in the layout, or the cluster has another number of ranks.
    """
    _check("model", model, MODEL)
    _check("layout", layout, AXES)
    if not isinstance(cluster, Cluster) or not isinstance(speed, int | float) or not speed > 0:
        raise ValueError(f"layout_seconds: expected a Cluster and a speed above 0, got {cluster!r} and {speed!r}")
    if math.prod(layout[axis] for axis in AXES) != cluster.world_size:
        raise ValueError(f"layout_seconds: {dict(layout)} does not have {cluster.world_size} ranks, as the cluster has")
    return seconds_parts(model, cluster, speed, layout)["together"]


def _check(name: str, given: Any, keys: Any) -> None:
    if not isinstance(given, Mapping) or set(given) != set(keys):
        raise ValueError(f"expected {name} to have {', '.join(keys)}, got {given!r}")
    if not all(type(value) is int and value >= 1 for value in given.values()):
        raise ValueError(f"expected numbers of at least 1 in {name}, got {given!r}")
    if len(given) > MOST_AXES:
        raise ValueError(f"expected at most {MOST_AXES} {name}, got {len(given):,}")
    if name != "model" and math.prod(given.values()) > MOST_RANKS:
        raise ValueError(f"expected at most {MOST_RANKS:,} ranks, got {given!r}")
