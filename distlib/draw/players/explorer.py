"""`explore_race`: the race of all-reduces with sliders. The curves are predicted anew, in Python, at every move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from distlib.draw.charts.race_table import Race, run_race
from distlib.draw.players.race_scene import race_scene
from distlib.draw.players.scene import Scene
from distlib.draw.players.slider import Slider
from distlib.draw.players.slider_board import SliderBoard
from distlib.draw.style import count, format_bytes
from distlib.network import Cluster, Link

SIZES = tuple(4 << power for power in range(0, 29, 2))
"""Sizes on the axis, in bytes: 4 B to 1 GiB."""

NODES = tuple(1 << power for power in range(1, 8))
"""Numbers of nodes on the axis: 2 to 128."""

_LATENCIES = tuple(float(f"{factor}e{power}") for power in range(-7, -3) for factor in (1, 2, 5))  # 0.1 to 500 µs
_BANDWIDTHS = tuple(
    float(f"{factor}e{power}") for power in range(8, 12) for factor in (1.25, 2.5, 5)
)  # 1 to 4,000 Gbit/s


class Explorer(SliderBoard):
    """Sliders and a race.

    Attributes:
        sliders: name to widget: "axis", "nbytes", "nodes", "ranks_per_node", "latency", "bandwidth".
        intra: the link inside a node, which has no slider.
        algorithms: which ones race.
    """

    def __init__(self, cluster: Cluster, nbytes: int, algorithms: Sequence[str] | None, along: str) -> None:
        self.intra = cluster.intra
        self.algorithms = algorithms
        super().__init__(_sliders(cluster, nbytes, along))

    def table(self) -> Race:
        """The race at the sliders' present values."""
        if self.sliders["axis"].value == "bytes":
            return run_race(self._cluster(self.sliders["nodes"].value), SIZES, self.algorithms)
        return run_race([self._cluster(number) for number in NODES], self.sliders["nbytes"].value, self.algorithms)

    def _cluster(self, nodes: int) -> Cluster:
        inter = Link(self.sliders["latency"].value, self.sliders["bandwidth"].value)
        return Cluster(nodes, self.sliders["ranks_per_node"].value, self.intra, inter)

    def scenes(self) -> tuple[Scene]:
        """The picture of that race."""
        table = self.table()
        ranks = self.sliders["nodes"].value * self.sliders["ranks_per_node"].value
        wanted = self.sliders["nbytes"].value if table.along == "bytes" else ranks
        return (race_scene(table, wanted),)

    def __repr__(self) -> str:
        return f"<Explorer: {self.widget.scene['title']} {self.widget.scene['steps'][0]['words']}>"


def explore_race(
    cluster: Cluster | None = None,
    nbytes: int = 1 << 20,
    algorithms: Sequence[str] | None = None,
    *,
    along: Literal["bytes", "ranks"] = "bytes",
) -> Explorer:
    """The race of all-reduces, with sliders for size, nodes, ranks per node, and the links between nodes.

    Args:
        cluster: where the sliders stand at first; those of the ranks go to their nearest value. By default 16 nodes of
            8 ranks, 2 µs and 200 GB/s inside a node, 5 µs and 12.5 GB/s between nodes. The link inside a node stays as
            it is. A single node is taken for as many nodes of one rank as it has ranks.
        nbytes: the size at first, or rather its nearest of 4 B, 16 B, 64 B, … 1 GiB.
        algorithms: names as `all_reduce` takes them; by default all.
        along: what the x axis shows at first: the size of the tensor in "bytes", or the number of "ranks".

    Raises:
        ValueError: an unknown algorithm, or another word for `along`.
    """
    if along not in ("bytes", "ranks"):
        raise ValueError(f"expected along='bytes' or 'ranks', got {along!r}")
    if cluster is None:
        cluster = Cluster(nodes=16, ranks_per_node=8, intra=Link(2e-6, 200e9), inter=Link(5e-6, 12.5e9))
    if cluster.nodes == 1:
        cluster = Cluster(cluster.world_size, 1, cluster.intra, cluster.intra)
    return Explorer(cluster, nbytes, algorithms, along)


def _sliders(cluster: Cluster, nbytes: int, along: str) -> dict[str, Slider]:
    axis = Slider("draw the times", [("over the size", "bytes"), ("over the ranks", "ranks")], along, kind="choice")
    latencies = sorted({*_LATENCIES, cluster.inter.latency})
    bandwidths = sorted({*_BANDWIDTHS, cluster.inter.bandwidth})
    return {
        "axis": axis,
        "nbytes": _slider("size", SIZES, nbytes, format_bytes),
        "nodes": _slider("nodes", NODES, cluster.nodes, lambda number: count(number, "node")),
        "ranks_per_node": _slider(
            "ranks per node", (1, 2, 4, 8), cluster.ranks_per_node, lambda number: count(number, "rank")
        ),
        "latency": _slider(
            "latency between nodes", latencies, cluster.inter.latency, lambda seconds: f"{seconds * 1e6:g} µs"
        ),
        "bandwidth": _slider(
            "bandwidth between nodes", bandwidths, cluster.inter.bandwidth, lambda rate: f"{rate / 1e9:g} GB/s"
        ),
    }


def _slider(name: str, values: Sequence[Any], first: float, say: Any) -> Slider:
    nearest = min(values, key=lambda value: abs(value - first))
    return Slider(name, [(say(value), value) for value in values], nearest)
