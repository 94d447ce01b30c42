"""Exercise 03b: the function that its check supplies."""

from __future__ import annotations

from distlib.checks.supplied import helper
from distlib.network import Cluster, all_reduce_seconds

MOST_RANKS = 20_000


@helper()
def predict_time(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    """Seconds that an all-reduce of `nbytes` bytes takes on a cluster, by the closed forms of distlib.network.

    Raises:
        ValueError: more ranks than any cluster of this exercise has: the form for a ring takes a while for these.
    """
    if isinstance(cluster, Cluster) and cluster.world_size > MOST_RANKS:
        raise ValueError(f"predict_time: expected at most {MOST_RANKS:,} ranks, got {cluster.world_size:,}")
    return all_reduce_seconds(algorithm, cluster, nbytes, itemsize=1)
