"""Clusters, and what every collective costs on them. Pure arithmetic: nothing here communicates.

cluster      Link and Cluster: latency and bandwidth inside and between nodes
traffic      messages, bytes and rounds of every collective, exactly
duration     seconds of every collective: closed forms in latency and bandwidth
choice       which all-reduce is fastest, and from where on
two_trees    the two trees of the double-tree all-reduce

cluster = Cluster(nodes=16, ranks_per_node=8, intra=Link(2e-6, 200e9), inter=Link(5e-6, 12.5e9))
traffic.ring_all_reduce(world_size=128, length=1_000_000, itemsize=4).nbytes[0]
duration.ring_all_reduce(cluster, length=1_000_000, itemsize=4)
print(choose_all_reduce(cluster, length=1_000_000, itemsize=4))
"""

from distlib.network import duration, traffic
from distlib.network.choice import (
    ALL_REDUCES,
    Choice,
    all_reduce_seconds,
    choose_all_reduce,
    crossover_bytes,
    crossover_nodes,
    square_columns,
)
from distlib.network.cluster import DEFAULT_LINK, Cluster, Link
from distlib.network.traffic import Traffic

__all__ = [
    "ALL_REDUCES",
    "DEFAULT_LINK",
    "Choice",
    "Cluster",
    "Link",
    "Traffic",
    "all_reduce_seconds",
    "choose_all_reduce",
    "crossover_bytes",
    "crossover_nodes",
    "duration",
    "square_columns",
    "traffic",
]
