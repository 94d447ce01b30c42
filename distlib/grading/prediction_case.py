"""One question to `predict_time` or `choose_algorithm`, and the answer to it.

The right time is the closed form of `distlib.network`. A test holds that simulated runs take the same time, to the last
digits, on the clusters that a question may be about: one node with any number of ranks, or several nodes where nodes
and ranks per node are powers of two; bytes that divide by the number of ranks; links between nodes that are not faster
than those inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distlib.checks.supplied import predict_time
from distlib.grading.case import count
from distlib.network import Cluster
from distlib.network.powers import is_power_of_two

PREDICTED = ("ring", "tree", "halving_doubling", "hierarchical")


@dataclass(frozen=True)
class Question:
    """A tensor on a cluster, and the algorithms that are asked about: one to predict, several to choose from.

    Attributes:
        function: the name of the student's function, for messages.
        nbytes: the size of the tensor in bytes.
        cluster: what it is all-reduced on.
        algorithms: names out of `PREDICTED`.

    Raises:
        ValueError: a question whose answer the model does not give exactly.
    """

    function: str
    nbytes: int
    cluster: Cluster
    algorithms: tuple[str, ...]

    def __post_init__(self) -> None:
        cluster = self.cluster
        aligned = is_power_of_two(cluster.nodes) and is_power_of_two(cluster.ranks_per_node)
        if cluster.nodes > 1 and not (aligned and cluster.slowest_link() == cluster.inter):
            raise ValueError(f"expected powers of two of nodes and ranks, and no faster link between nodes: {cluster}")
        if self.nbytes % cluster.world_size:
            raise ValueError(f"expected bytes that divide by {cluster.world_size} ranks, got {self.nbytes}")
        if not self.algorithms or not set(self.algorithms) <= set(PREDICTED):
            raise ValueError(f"expected algorithms out of {', '.join(PREDICTED)}, got {self.algorithms}")

    @property
    def title(self) -> str:
        """As in "predict_time on 6 ranks, ring, 1,200 bytes, links of 5 µs, 12.5 GB/s"."""
        ranks = count(self.cluster.world_size, "rank")
        names = f"{self.algorithms[0]}, " if len(self.algorithms) == 1 else ""
        return f"{self.function} on {ranks}, {names}{count(self.nbytes, 'byte')}, {self.cluster}"

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The right time of each algorithm."""
        return {name: predict_time(name, self.nbytes, self.cluster) for name in self.algorithms}
