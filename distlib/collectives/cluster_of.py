"""The links between the ranks of a communicator, for algorithms whose choices depend on them."""

from __future__ import annotations

from distlib.communicator import Communicator
from distlib.network import Cluster


def cluster_of(comm: Communicator) -> Cluster:
    """The cluster that the ranks of `comm` are on: `comm.network`, as in a `SimulatedWorld` or a paced `World`.

    A communicator that has none, such as that of a `World` that is not paced, counts as one node whose ranks have the
    default link (`distlib.network.DEFAULT_LINK`). A part of a cluster counts as one node as well, with the slowest
    link of the whole cluster.
    """
    cluster = comm.network
    if cluster is None:
        return Cluster.flat(comm.world_size)
    if cluster.world_size != comm.world_size:
        return Cluster.flat(comm.world_size, cluster.slowest_link())
    return cluster


def has_network(comm: Communicator) -> bool:
    """Whether the links between the ranks of `comm` are known: in a `SimulatedWorld`, or in a paced `World`."""
    return getattr(comm, "network", None) is not None or getattr(comm, "cluster", None) is not None
