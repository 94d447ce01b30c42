"""Predicted seconds of all-reduces, over message sizes or over ranks, and which one is the fastest where.

bytes      4 B     1 KiB    256 KiB    64 MiB         one cluster, several sizes
ranks      4       16       64         256            several clusters, one size
tree       …
ring       …                                          seconds: `network.all_reduce_seconds`
fastest    tree    tree     ring       ring           among equals, the simplest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from distlib.draw.style import count, format_bytes
from distlib.network import ALL_REDUCES, Cluster, all_reduce_seconds

ITEMSIZE = 4  # float32


@dataclass(frozen=True)
class Lead:
    """A stretch of the axis on which one algorithm is the fastest.

    Attributes:
        algorithm: its name.
        first: the first number of bytes or ranks at which it leads.
        starts, ends: indices of the first amount of the race inside, and of the one behind the last.
    """

    algorithm: str
    first: int
    starts: int
    ends: int


@dataclass(frozen=True)
class Race:
    """What each algorithm takes at each number of bytes or of ranks.

    Attributes:
        where: what is the same everywhere, in words: "on 128 ranks", "of 1 MiB".
        along: of what there are more and more, "bytes" or "ranks".
        amounts: numbers of bytes or of ranks, rising.
        seconds: name to predicted seconds, one for each amount.
        leads: which algorithm is the fastest where, from left to right.
    """

    where: str
    along: Literal["bytes", "ranks"]
    amounts: list[int]
    seconds: dict[str, list[float]]
    leads: list[Lead]


def run_race(
    cluster: Cluster | Sequence[Cluster], nbytes: int | Sequence[int], algorithms: Sequence[str] | None = None
) -> Race:
    """Predict all-reduces of float32 for one cluster and several sizes, or for several clusters and one size.

    Args:
        cluster: a cluster; or several, of different numbers of ranks.
        nbytes: several sizes in bytes; or one. Rounded down to whole numbers of 4 bytes.
        algorithms: names as `all_reduce` takes them; by default all.

    Raises:
        ValueError: not exactly one of the two is a sequence; fewer than 2 different amounts; less than 4 bytes or 2
            ranks; an unknown algorithm; a time of 0, which no logarithmic axis can show.
    """
    names = list(ALL_REDUCES if algorithms is None else algorithms)
    if not names:
        raise ValueError(f"expected at least one of the algorithms {', '.join(ALL_REDUCES)}, got none")
    if isinstance(cluster, Cluster) and not isinstance(nbytes, int):
        return _race_over_bytes(cluster, [int(size) for size in nbytes], names)
    if not isinstance(cluster, Cluster) and isinstance(nbytes, int):
        return _race_over_ranks(list(cluster), nbytes, names)
    got = "one cluster and one size" if isinstance(cluster, Cluster) else "several clusters and several sizes"
    raise ValueError(f"expected one cluster and several sizes, or several clusters and one size, got {got}")


def _race_over_bytes(cluster: Cluster, sizes: Sequence[int], names: Sequence[str]) -> Race:
    _check([cluster], sizes)
    lengths = _rising([size // ITEMSIZE for size in sizes], "sizes")
    seconds = {name: [all_reduce_seconds(name, cluster, n, ITEMSIZE) for n in lengths] for name in names}
    leads = _find_leads([length * ITEMSIZE for length in lengths], seconds)
    exact = [leads[0]]
    for before, lead in pairwise(leads):
        interval = lengths[lead.starts - 1], lengths[lead.starts]
        first = ITEMSIZE * _first_length(cluster, before.algorithm, lead.algorithm, *interval)
        exact.append(Lead(lead.algorithm, first, lead.starts, lead.ends))
    amounts = [length * ITEMSIZE for length in lengths]
    return Race(f"on {count(cluster.world_size, 'rank')}", "bytes", amounts, seconds, exact)


def _race_over_ranks(clusters: Sequence[Cluster], nbytes: int, names: Sequence[str]) -> Race:
    _check(clusters, [nbytes])
    by_ranks = {cluster.world_size: cluster for cluster in clusters}
    ranks = _rising([cluster.world_size for cluster in clusters], "numbers of ranks")
    length = nbytes // ITEMSIZE
    seconds = {name: [all_reduce_seconds(name, by_ranks[n], length, ITEMSIZE) for n in ranks] for name in names}
    return Race(f"of {format_bytes(length * ITEMSIZE)}", "ranks", ranks, seconds, _find_leads(ranks, seconds))


def _check(clusters: Sequence[Cluster], sizes: Sequence[int]) -> None:
    for cluster in clusters:
        if not isinstance(cluster, Cluster):
            raise ValueError(f"expected clusters, such as Cluster(nodes=2, ranks_per_node=8), got {cluster!r}")
        if cluster.world_size < 2:
            raise ValueError("expected clusters of at least 2 ranks, got one of 1: it has nothing to send")
    if any(size < ITEMSIZE for size in sizes):
        raise ValueError(f"expected sizes of at least {ITEMSIZE} bytes, one float32, got {min(sizes)}")


def _rising(values: Sequence[int], what: str) -> list[int]:
    amounts = sorted(set(values))
    if len(amounts) < 2:
        raise ValueError(f"expected at least 2 different {what}, got {len(amounts)}: a line needs two points")
    return amounts


def _find_leads(amounts: Sequence[int], seconds: dict[str, list[float]]) -> list[Lead]:
    """The fastest algorithm at each amount, neighbors of the same name put together."""
    if min(min(times) for times in seconds.values()) <= 0:
        raise ValueError("expected links with a latency above 0 or a finite bandwidth, got links that take no time")
    rounded = {name: [float(f"{time:.12g}") for time in times] for name, times in seconds.items()}  # equals are equal
    fastest = [min(rounded, key=lambda name: rounded[name][index]) for index in range(len(amounts))]
    starts = [index for index, name in enumerate(fastest) if index == 0 or name != fastest[index - 1]]
    return [
        Lead(fastest[start], amounts[start], start, end)
        for start, end in zip(starts, [*starts[1:], len(amounts)], strict=True)
    ]


def _first_length(cluster: Cluster, first: str, second: str, low: int, high: int) -> int:
    """The smallest length above `low` at which `second` is faster than `first`, found by halving the interval."""
    while high - low > 1:
        middle = (low + high) // 2
        before, after = (all_reduce_seconds(name, cluster, middle, ITEMSIZE) for name in (first, second))
        low, high = (low, middle) if after < before else (middle, high)
    return high
