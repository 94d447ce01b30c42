"""What a layout costs, by the formulas of the exercise's text, and which one is best.

model     {"layers": 24, "features": 2048, "heads": 16, "sequence": 1024, "batch": 64}
layout    {"dp": 2, "pp": 2, "tp": 2}, the last axis the fastest; a microbatch is one sequence
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from distlib.exercises.hybrid.axes import Sizes
from distlib.network import Cluster, Link
from distlib.training.mesh.coordinates import mesh_groups

Model = Mapping[str, int]


def parameters_of_rank(model: Model, layout: Sizes) -> float:
    """How many parameters a rank has."""
    return 12 * model["layers"] * model["features"] ** 2 / (layout["pp"] * layout["tp"])


def memory_parts(model: Model, layout: Sizes) -> tuple[float, float]:
    """The bytes of a rank of the first stage: of parameters, gradients and states, and of activations."""
    states = (4 + 12 / layout["dp"]) * parameters_of_rank(model, layout)
    live = min(model["batch"] // layout["dp"], layout["pp"])
    layers = model["layers"] / layout["pp"]
    return states, 34 * model["sequence"] * model["features"] / layout["tp"] * layers * live


def layout_bytes(model: Model, layout: Sizes) -> float:
    """The bytes of a rank of the first stage."""
    return sum(memory_parts(model, layout))


def link_of(axis: str, layout: Sizes, cluster: Cluster) -> Link:
    """The link that a group of an axis uses: that between nodes as soon as one group is on several."""
    nodes = [{cluster.node_of(rank) for rank in group} for group in mesh_groups(layout, axis)]
    return cluster.inter if any(len(each) > 1 for each in nodes) else cluster.intra


def ring_seconds(ranks: int, nbytes: float, link: Link) -> float:
    """An all-reduce in a ring."""
    return 2 * (ranks - 1) * (link.latency + nbytes / ranks / link.bandwidth)


def seconds_parts(
    model: Model, cluster: Cluster, speed: float, layout: Sizes, links: Mapping[str, Link] | None = None
) -> dict[str, float]:
    """The seconds of a step, by part: computing and tp of one microbatch in a stage, pp, dp, and all together.

    `links`: by axis, other links than those that its groups use.
    """
    links = {axis: link_of(axis, layout, cluster) for axis in ("dp", "pp", "tp")} | dict(links or {})
    microbatches, values = model["batch"] // layout["dp"], 2 * model["sequence"] * model["features"]
    parameters = parameters_of_rank(model, layout)
    compute = 6 * parameters * model["sequence"] / speed
    tp = 4 * model["layers"] / layout["pp"] * ring_seconds(layout["tp"], values, links["tp"])
    pp = 2 * (layout["pp"] - 1) * links["pp"].seconds(values)
    dp = ring_seconds(layout["dp"], 2 * parameters, links["dp"])
    together = (microbatches + layout["pp"] - 1) * (compute + tp) + pp + dp
    return {"compute": compute, "tp": tp, "pp": pp, "dp": dp, "together": together}


def layouts_of(model: Model, ranks: int) -> Iterator[dict[str, int]]:
    """All layouts: tp divides the heads, pp the layers, dp the batch."""
    for dp in range(1, ranks + 1):
        for pp in range(1, ranks + 1):
            tp, rest = divmod(ranks, dp * pp)
            if not rest and not model["batch"] % dp and not model["layers"] % pp and tp and not model["heads"] % tp:
                yield {"dp": dp, "pp": pp, "tp": tp}


def best_layout(model: Model, cluster: Cluster, memory: float, speed: float) -> dict[str, int] | None:
    """The fastest of those that fit; None if none does."""
    fitting = [each for each in layouts_of(model, cluster.world_size) if layout_bytes(model, each) <= memory]
    return min(fitting, key=lambda each: seconds_parts(model, cluster, speed, each)["together"], default=None)


def least_bytes(model: Model, ranks: int) -> float:
    """The bytes of the layout that needs the least."""
    return min((layout_bytes(model, each) for each in layouts_of(model, ranks)), default=math.inf)
