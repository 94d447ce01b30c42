"""Which all-reduce is fastest on a cluster, by the closed forms of `duration`, and from where on one beats another.

few bytes:   latency counts, so few rounds are best    (tree, halving and doubling)
many bytes:  bandwidth counts, so few bytes are best   (ring, grid, hierarchical, halving and doubling)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from distlib.arguments import check_by_name, checked
from distlib.network import duration
from distlib.network.cluster import DEFAULT_LINK, Cluster, Link

ALL_REDUCES = ("naive", "ring", "tree", "halving_doubling", "double_tree", "grid", "hierarchical")


@dataclass(frozen=True)
class Choice:
    """The fastest all-reduce for a tensor on a cluster. As a string: what was chosen, and why.

    Attributes:
        algorithm: its name, as `all_reduce` takes it.
        seconds: name to predicted seconds for every algorithm, the fastest first.
        latency_seconds: how much of the fastest one's time is latency: what an empty tensor would take.
        cluster: the cluster it was chosen for.
        nbytes: size of the tensor in bytes.
    """

    algorithm: str
    seconds: dict[str, float]
    latency_seconds: float
    cluster: Cluster
    nbytes: int

    def __str__(self) -> str:
        total = self.seconds[self.algorithm]
        others = ", ".join(f"{name} {_readable(s)}" for name, s in self.seconds.items() if name != self.algorithm)
        return (
            f"{self.algorithm} for {self.nbytes:,} bytes on {self.cluster.world_size} ranks ({self.cluster}): "
            f"{_readable(total)}, of which latency {_readable(self.latency_seconds)} "
            f"and bytes {_readable(total - self.latency_seconds)}. Others: {others}."
        )


@checked
def choose_all_reduce(cluster: Cluster, length: int, itemsize: int) -> Choice:
    """The fastest all-reduce for `length` elements of `itemsize` bytes. Among equals, the simplest.

    Eager messages and shared links between nodes are left out of account, as in all of `duration`.

    Raises:
        TypeError, ValueError: not a cluster, or not the numbers of elements and of bytes.
    """
    return _choose(cluster, length, itemsize)


@lru_cache(maxsize=1024)
def _choose(cluster: Cluster, length: int, itemsize: int) -> Choice:
    seconds = {name: all_reduce_seconds(name, cluster, length, itemsize) for name in ALL_REDUCES}
    ordered = dict(sorted(seconds.items(), key=lambda item: item[1]))  # keeps the order of ALL_REDUCES among equals
    fastest = next(iter(ordered))
    latency = all_reduce_seconds(fastest, cluster, 0, itemsize)
    return Choice(fastest, ordered, latency, cluster, length * itemsize)


def all_reduce_seconds(algorithm: str, cluster: Cluster, length: int, itemsize: int) -> float:
    """What `all_reduce(…, algorithm=algorithm)` takes on a cluster, in seconds; see `duration`.

    Raises:
        ValueError: an unknown algorithm.
    """
    if not isinstance(algorithm, str) or algorithm not in ALL_REDUCES:
        raise ValueError(f"expected one of the algorithms {', '.join(ALL_REDUCES)}, got {algorithm!r}")
    check_by_name("all_reduce_seconds", cluster=cluster, length=length, itemsize=itemsize)
    options = {
        "double_tree": {"blocks": duration.best_blocks(cluster, length, itemsize)},
        "grid": {"columns": square_columns(cluster.world_size)},
        "hierarchical": {"ranks_per_node": cluster.ranks_per_node},
    }
    return getattr(duration, f"{algorithm}_all_reduce")(cluster, length, itemsize, **options.get(algorithm, {}))


@checked
def square_columns(world_size: int) -> int:
    """The number of columns of the grid of `world_size` ranks that is nearest to a square, at least as many as rows."""
    return next(
        columns for columns in range(math.isqrt(world_size - 1) + 1, world_size + 1) if world_size % columns == 0
    )


@checked
def crossover_bytes(
    cluster: Cluster, first: str, second: str, itemsize: int = 4, max_bytes: int = 1 << 40
) -> int | None:
    """The smallest tensor, in bytes, for which the all-reduce `second` is faster than `first`.

    It is found by halving intervals, which assumes that they change places once.

    Returns:
        A multiple of `itemsize`; None if `first` is still as fast at `max_bytes`.
    """

    def second_wins(length: int) -> bool:
        return all_reduce_seconds(second, cluster, length, itemsize) < all_reduce_seconds(
            first, cluster, length, itemsize
        )

    low, high = -1, max_bytes // itemsize  # second does not win at low
    if not second_wins(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if second_wins(middle) else (middle, high)
    return high * itemsize


def crossover_nodes(
    first: str,
    second: str,
    nbytes: int,
    ranks_per_node: int,
    intra: Link = DEFAULT_LINK,
    inter: Link = DEFAULT_LINK,
    itemsize: int = 4,
    max_nodes: int = 1024,
) -> int | None:
    """The smallest number of nodes for which the all-reduce `second` is faster than `first`.

    It need not be so for every larger number: halving and doubling prefers powers of two.

    Returns:
        None if `first` is as fast for every number up to `max_nodes`.
    """
    length = nbytes // itemsize
    for nodes in range(1, max_nodes + 1):
        cluster = Cluster(nodes, ranks_per_node, intra, inter)
        if all_reduce_seconds(second, cluster, length, itemsize) < all_reduce_seconds(first, cluster, length, itemsize):
            return nodes
    return None


def _readable(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
