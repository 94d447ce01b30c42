"""A layout: how a model and a batch are laid out over the ranks of a cluster.

    ParallelLayout(dp=2, pp=2, tp=2)      rank 0  1  2  3  4  5  6  7        axes=("dp", "pp", "tp"): the last one is
                                   dp     0  0  0  0  1  1  1  1        the fastest, so its groups are neighbors
                                   pp     0  0  1  1  0  0  1  1
                                   tp     0  1  0  1  0  1  0  1

Ranks that differ in one coordinate alone form a group of that axis. Where the groups of tp lie inside a node, and those
of dp across nodes, the many bytes of tp travel over the fast links.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from distlib.arguments import check_integer, check_type
from distlib.network import Cluster, Link
from distlib.training.strategy.transformer_shape import TransformerShape

AXES = ("dp", "pp", "tp")
RECOMPUTE = ("none", "attention", "full")
STAGES = (0, 1, 2, 3)


@dataclass(frozen=True)
class ParallelLayout:
    """How many ranks share what.

    Attributes:
        dp: copies of the model, each with its part of the batch.
        pp: stages of the pipeline, which runs 1F1B.
        tp: ranks that share each layer; between the blocks they share the sequence, padded until they divide it.
        stage: of ZeRO, among the ranks of a dp group.
        microbatches: in each copy and step.
        recompute: what the backward pass computes again: "none", "attention" (its scores) or "full" (each layer).
        axes: the order of the axes, the slowest first.
        layers: of each stage; None for stages that take about as long as each other.

    Raises:
        ValueError: a size that is not an integer of at least 1, an unknown stage, axes or recomputation.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    stage: int = 0
    microbatches: int = 1
    recompute: str = "none"
    axes: tuple[str, str, str] = AXES
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("dp", "pp", "tp", "microbatches"):
            check_integer("ParallelLayout", name, getattr(self, name), 1)
        check_integer("ParallelLayout", "stage", self.stage, STAGES[0], STAGES[-1])
        if self.recompute not in RECOMPUTE:
            raise ValueError(f"expected recompute to be one of {', '.join(RECOMPUTE)}, got {self.recompute!r}")
        if sorted(self.axes) != sorted(AXES):
            raise ValueError(f"expected the axes dp, pp and tp in some order, got {self.axes!r}")
        if self.layers is not None:
            for each in self.layers:
                check_integer("ParallelLayout", "layers of a stage", each, 1)

    @property
    def world_size(self) -> int:
        """How many ranks it takes."""
        return self.dp * self.pp * self.tp

    def size(self, axis: str) -> int:
        """How many ranks a group of an axis has."""
        sizes: int = getattr(self, axis)
        return sizes

    def stride(self, axis: str) -> int:
        """How far apart neighbors in a group of an axis are."""
        stride = 1
        for inner in self.axes[self.axes.index(axis) + 1 :]:
            stride *= self.size(inner)
        return stride

    def coordinate(self, axis: str, rank: int) -> int:
        """The place of a rank in its group of an axis."""
        return rank // self.stride(axis) % self.size(axis)

    def group_of(self, axis: str, rank: int) -> int:
        """The lowest rank of a rank's group of an axis: a color for `split`."""
        return rank - self.coordinate(axis, rank) * self.stride(axis)

    def sequences(self, batch: int) -> int:
        """The sequences of a microbatch, where the batch has `batch`."""
        return batch // (self.dp * self.microbatches)

    def __str__(self) -> str:
        counted = "1 microbatch" if self.microbatches == 1 else f"{self.microbatches} microbatches"
        again = {"none": "nothing recomputed", "attention": "scores recomputed", "full": "layers recomputed"}
        order = "" if self.axes == AXES else f", order {'-'.join(self.axes)}"
        return (
            f"dp {self.dp} × pp {self.pp} × tp {self.tp}, ZeRO stage {self.stage}, {counted}, "
            f"{again[self.recompute]}{order}"
        )


def check_layout(shape: TransformerShape, cluster: Cluster, batch: int, layout: ParallelLayout) -> None:
    """Check that a model, a batch and a cluster can be laid out like this. Memory is not looked at.

    Raises:
        TypeError: something else than was expected.
        ValueError: both numbers that do not fit together.
    """
    check_type("a layout", "shape", shape, TransformerShape, "TransformerShape(24, 2048, 8192, 16, 50257, 1024)")
    check_type("a layout", "cluster", cluster, Cluster, "Cluster(nodes=2, ranks_per_node=8)")
    check_type("a layout", "layout", layout, ParallelLayout, "ParallelLayout(dp=2, tp=4)")
    check_integer("a layout", "batch", batch, 1)
    if problem := next(_problems(shape, cluster, batch, layout), None):
        raise ValueError(problem)


def _problems(shape: TransformerShape, cluster: Cluster, batch: int, layout: ParallelLayout) -> Iterator[str]:
    if layout.world_size != cluster.world_size:
        yield (
            f"dp {layout.dp} × pp {layout.pp} × tp {layout.tp} is {layout.world_size} ranks, "
            f"and the cluster has {cluster.world_size}"
        )
    if layout.pp > shape.layers:
        yield f"a pipeline of {layout.pp} stages needs as many layers, and there are {shape.layers}"
    parts = {"heads": shape.heads, "hidden features": shape.hidden}
    for name, number in parts.items():
        if number % layout.tp:
            yield f"tp {layout.tp} does not divide the {number:,} {name}"
    if batch % (layout.dp * layout.microbatches):
        yield (
            f"a batch of {batch} sequences can't be cut into equal microbatches: "
            f"dp {layout.dp} × {layout.microbatches} microbatches is {layout.dp * layout.microbatches}"
        )
    if layout.layers is not None and (len(layout.layers), sum(layout.layers)) != (layout.pp, shape.layers):
        yield (
            f"expected {shape.layers} layers over {layout.pp} stages, "
            f"got {sum(layout.layers)} over {len(layout.layers)}"
        )


@lru_cache(maxsize=1024)
def layers_by_stage(shape: TransformerShape, pp: int) -> tuple[int, ...]:
    """How many layers each stage gets: the next layer always goes to the stage with the least to compute.

    The last stage has the output layer as well. Among equals the later stage gets a layer, since the first one keeps
    the most microbatches.
    """
    layer = 2 * shape.layer_matrices + shape.score_operations
    work = [layer] * pp
    work[-1] += 2 * shape.vocabulary * shape.features
    layers = [1] * pp
    for _ in range(shape.layers - pp):
        least = min(reversed(range(pp)), key=work.__getitem__)
        layers[least] += 1
        work[least] += layer
    return tuple(layers)


def stage_layers(shape: TransformerShape, layout: ParallelLayout) -> tuple[int, ...]:
    """How many layers each stage of a layout has."""
    return layout.layers or layers_by_stage(shape, layout.pp)


def axis_link(cluster: Cluster, layout: ParallelLayout, axis: str) -> Link:
    """The slowest link between neighbors in the groups of an axis, as if nobody shared it."""
    return cluster.link_within(layout.stride(axis) * layout.size(axis))


def stage_links(cluster: Cluster, layout: ParallelLayout, axis: str, overlap: float = 1.0) -> list[Link]:
    """By stage, the slowest link between neighbors in its groups of an axis: the others wait for these.

    Where the ranks of a node share their link to the other nodes, each of those that send out has its part of it.

    Args:
        overlap: for which part of its time a stage shares the link with the others.
    """
    slow, per_node = axis_link(cluster, layout, axis), cluster.ranks_per_node
    block = layout.stride(axis) * layout.size(axis)
    if cluster.nodes == 1 or per_node % block == 0 or (block % per_node == 0 and not cluster.shared_uplink):
        return [slow] * layout.pp
    counts, most = _ranks_that_send_out((layout.dp, layout.pp, layout.tp), layout.axes, axis, per_node)
    links = {0: cluster.intra}
    for count in {*counts} - {0}:
        many = max(1.0, count + overlap * (most - count)) if cluster.shared_uplink else 1.0
        links[count] = Link(slow.latency, min(slow.bandwidth, cluster.inter.bandwidth / many))
    return [links[count] for count in counts]


@lru_cache(maxsize=4096)
def _ranks_that_send_out(
    sizes: tuple[int, int, int], axes: tuple[str, str, str], axis: str, per_node: int
) -> tuple[list[int], int]:
    """How many ranks of a node have their next neighbor on another one, in the node that has most: by stage, and all.

    Args:
        sizes: dp, pp and tp.
    """
    layout, sending = ParallelLayout(*sizes, axes=axes), Counter[tuple[int, int]]()
    stride, size, pp_stride = layout.stride(axis), layout.size(axis), layout.stride("pp")
    repeats = math.lcm(per_node, stride * size, pp_stride * layout.pp)  # from there on, the same
    for rank in range(min(layout.world_size, repeats)):
        coordinate = rank // stride % size
        following = rank + stride if coordinate + 1 < size else rank - coordinate * stride
        if rank // per_node != following // per_node:
            sending[rank // per_node, rank // pp_stride % layout.pp] += 1
    by_stage, by_node = [int(axis == "pp")] * layout.pp, Counter[int]()
    for (node, stage), count in sending.items():
        by_stage[stage] = max(by_stage[stage], count)
        by_node[node] += count
    return by_stage, max(by_node.values(), default=0)


def boundary_links(cluster: Cluster, layout: ParallelLayout) -> list[Link]:
    """For each boundary between two stages, the slowest link that its messages take."""
    stride, size, per_node = layout.stride("pp"), layout.size("pp"), cluster.ranks_per_node
    slow = stage_links(cluster, layout, "pp")
    if cluster.nodes == 1 or per_node % (stride * size) == 0:
        return [cluster.intra] * (size - 1)
    aligned = per_node % stride == 0 and (stride * size) % per_node == 0
    return [
        slow[stage] if not aligned or (stage + 1) * stride % per_node == 0 else cluster.intra
        for stage in range(size - 1)
    ]
