"""What a cluster is made of: links with a latency and a bandwidth, inside its nodes and between them.

    node 0                      node 1
    rank 0 ── intra ── rank 1   rank 2 ── intra ── rank 3
        └──────────── inter ────────────┘

A message of m bytes takes α + m·β over a link, with α its latency in seconds and 1/β its bandwidth in bytes/s
(Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Link:
    """A connection between two ranks, the same in both directions.

    Attributes:
        latency: α, in seconds; at least 0.
        bandwidth: 1/β, in bytes per second; more than 0.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if not self.latency >= 0:
            raise ValueError(f"expected a latency of at least 0 seconds, got {self.latency}")
        if not self.bandwidth > 0:
            raise ValueError(f"expected a bandwidth of more than 0 bytes/s, got {self.bandwidth}")


DEFAULT_LINK = Link(latency=5e-6, bandwidth=10e9)


@dataclass(frozen=True)
class Cluster:
    """Nodes with ranks on them, numbered node by node.

    Attributes:
        nodes, ranks_per_node: at least 1 each.
        intra, inter: the links between ranks of one node, and of different nodes.
        eager_limit: messages of at most this many bytes do not wait for their receiver; 0: all wait.
        shared_uplink: whether the ranks of a node share one link in each direction to the other nodes.
        stragglers: by how much `comm.sleep` takes longer on some ranks, as {rank: factor}.
    """

    nodes: int
    ranks_per_node: int
    intra: Link = DEFAULT_LINK
    inter: Link = DEFAULT_LINK
    eager_limit: int = 0
    shared_uplink: bool = False
    stragglers: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.ranks_per_node < 1:
            raise ValueError(
                f"expected at least 1 node with at least 1 rank, got nodes={self.nodes}, "
                f"ranks_per_node={self.ranks_per_node}"
            )
        if self.eager_limit < 0:
            raise ValueError(f"expected an eager_limit of at least 0 bytes, got {self.eager_limit}")
        for rank, factor in self.stragglers.items():
            if not 0 <= rank < self.world_size or not factor > 0:
                raise ValueError(
                    f"expected stragglers as {{rank: factor}}, ranks 0 to {self.world_size - 1}, factors above 0, "
                    f"got {{{rank}: {factor}}}"
                )

    @classmethod
    def flat(cls, world_size: int, link: Link = DEFAULT_LINK, **options: object) -> Cluster:
        """One node whose ranks all have the same link. `options`: further attributes."""
        return cls(1, world_size, link, link, **options)  # type: ignore[arg-type]

    @property
    def world_size(self) -> int:
        """How many ranks there are in all."""
        return self.nodes * self.ranks_per_node

    def node_of(self, rank: int) -> int:
        """The node that a rank is on."""
        return rank // self.ranks_per_node

    def link(self, src: int, dst: int) -> Link:
        """The link between two ranks."""
        return self.intra if self.node_of(src) == self.node_of(dst) else self.inter

    def uniform_link(self) -> Link | None:
        """The one link that all pairs of ranks have; None if pairs differ."""
        return self.intra if self.nodes == 1 or self.intra == self.inter else None

    def slowdown(self, rank: int) -> float:
        """By how much computing takes longer on a rank."""
        return self.stragglers.get(rank, 1.0)
