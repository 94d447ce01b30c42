"""What messages travel over: links, and the cluster that they join.

    node 0                      node 1
    rank 0 ── rank 1            rank 4 ── rank 5       inside a node: `intra`
      │    ╳    │    ───────────  │    ╳    │
    rank 2 ── rank 3            rank 6 ── rank 7       between nodes: `inter`

A message of m bytes over a link of latency α and bandwidth B takes α + m/B seconds. The first term is there for the
smallest message; the second grows with it. (R. W. Hockney, "The communication challenge for MPP: Intel Paragon and
Meiko CS-2", Parallel Computing 20(3), 1994; there α is t₀, and B is r∞.)
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from distlib.arguments import check_integer, is_real


@dataclass(frozen=True, slots=True)
class Link:
    """A way for messages from one rank to another.

    Attributes:
        latency: α, seconds from the first byte's start to its arrival. At least 0.
        bandwidth: B, bytes per second. Above 0; `math.inf` for a link on which only latency counts.

    Raises:
        ValueError: a negative or missing latency, or a bandwidth that is not above 0.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        is_number = is_real(self.latency) and is_real(self.bandwidth)
        if not (is_number and 0 <= self.latency < math.inf and self.bandwidth > 0):
            raise ValueError(
                f"expected a latency of at least 0 seconds and a bandwidth above 0 bytes/s, "
                f"got latency={self.latency!r}, bandwidth={self.bandwidth!r}"
            )

    def seconds(self, nbytes: float) -> float:
        """How long a message of `nbytes` bytes takes: α + m/B.

        Raises:
            ValueError: not a number of at least 0.
        """
        if not (is_real(nbytes) and nbytes >= 0):
            raise ValueError(f"expected a number of bytes of at least 0, got nbytes={nbytes!r}")
        return self.latency + nbytes / self.bandwidth

    def __str__(self) -> str:
        return f"{self.latency * 1e6:g} µs, {self.bandwidth / 1e9:g} GB/s"


DEFAULT_LINK = Link(latency=5e-6, bandwidth=12.5e9)
"""What is assumed where nothing is known: a network of 100 Gbit/s with a latency of 5 µs."""


@dataclass(frozen=True)
class Cluster:
    """Nodes of equal size, and the links inside and between them. Rank r is on node r // ranks_per_node.

    Attributes:
        nodes: how many nodes.
        ranks_per_node: how many ranks on each.
        intra: the link between two ranks of one node.
        inter: the link between two ranks of different nodes.
        eager_limit: messages up to this size, in bytes, leave without waiting for the receiver. 0: every message waits.
        shared_uplink: whether the ranks of a node share one link to the other nodes, one message at a time in each
            direction. False: each rank has a link of its own.
        stragglers: rank to factor: how many times longer that rank's computations (`comm.sleep`) take.
        jitter: every computation takes up to this fraction longer, at random (0.1: up to a tenth).
        seed: of the jitter.

    Raises:
        ValueError: what cannot be, with what was expected: no ranks, a negative limit, a straggler that does not exist.
    """

    nodes: int
    ranks_per_node: int
    intra: Link = DEFAULT_LINK
    inter: Link = DEFAULT_LINK
    eager_limit: int = 0
    shared_uplink: bool = False
    stragglers: Mapping[int, float] = field(default_factory=dict, hash=False)
    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks_per_node"):  # as Python's integers; numpy's are taken, too
            object.__setattr__(self, name, check_integer("Cluster", name, getattr(self, name), at_least=1))
        for name, link in (("intra", self.intra), ("inter", self.inter)):
            if not isinstance(link, Link):
                raise ValueError(f"expected a Link as {name}, such as Link(latency=1e-6, bandwidth=1e10), got {link!r}")
        if not all(is_real(value) and value >= 0 for value in (self.eager_limit, self.jitter)):
            raise ValueError(
                f"expected an eager limit of at least 0 bytes and a jitter of at least 0, "
                f"got eager_limit={self.eager_limit!r}, jitter={self.jitter!r}"
            )
        if not isinstance(self.stragglers, Mapping):
            raise ValueError(
                f"expected stragglers as a mapping from ranks to factors, {{1: 3.0}}, got {self.stragglers!r}"
            )
        for rank, factor in self.stragglers.items():
            is_rank = _is_whole(rank) and 0 <= rank < self.world_size  # a range would be walked for a text
            if not is_rank or not (is_real(factor) and 0 < factor < math.inf):
                raise ValueError(
                    f"expected stragglers among the ranks 0 to {self.world_size - 1} with factors above 0, "
                    f"got rank {rank!r} with factor {factor!r}"
                )

    @classmethod
    def flat(cls, world_size: int, link: Link = DEFAULT_LINK, **options: Any) -> Cluster:
        """One node whose ranks all have the same link to each other. `options`: further attributes."""
        return cls(nodes=1, ranks_per_node=world_size, intra=link, inter=link, **options)

    @property
    def world_size(self) -> int:
        """How many ranks there are on all nodes together."""
        return self.nodes * self.ranks_per_node

    def node_of(self, rank: int) -> int:
        """The node that a rank is on. Raises ValueError if there is no such rank."""
        check_integer("node_of", "rank", rank, 0, self.world_size - 1)
        return rank // self.ranks_per_node

    def link(self, src: int, dst: int) -> Link:
        """The link between two ranks."""
        return self.intra if src // self.ranks_per_node == dst // self.ranks_per_node else self.inter

    def uniform_link(self) -> Link | None:
        """The link between any two ranks where all are the same, else None."""
        if self.nodes == 1 or self.intra == self.inter:
            return self.intra
        return self.inter if self.ranks_per_node == 1 else None

    def slowest_link(self) -> Link:
        """A link that no link of the cluster is slower than: the highest latency with the lowest bandwidth."""
        worst = Link(max(self.intra.latency, self.inter.latency), min(self.intra.bandwidth, self.inter.bandwidth))
        return self.uniform_link() or worst

    def link_within(self, size: int) -> Link:
        """The slowest link inside a block of `size` ranks, where the ranks are cut into such blocks from rank 0 on."""
        return self.intra if self.nodes == 1 or self.ranks_per_node % size == 0 else self.slowest_link()

    def link_across(self, size: int) -> Link:
        """The slowest link between ranks that are a multiple of `size` apart."""
        return self.inter if self.nodes > 1 and size % self.ranks_per_node == 0 else self.slowest_link()

    def slowdown(self, rank: int, number: int = 0) -> float:
        """How many times longer than elsewhere the computation `number` of a rank takes. The same for the same seed."""
        factor = self.stragglers.get(rank, 1.0)
        if self.jitter:
            factor *= 1 + self.jitter * random.Random(f"{self.seed} {rank} {number}").random()
        return factor

    def __str__(self) -> str:
        link = self.uniform_link()
        if link is not None:
            return f"links of {link}"
        return (
            f"{self.nodes} nodes of {self.ranks_per_node} ranks, inside a node {self.intra}, between nodes {self.inter}"
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral)
