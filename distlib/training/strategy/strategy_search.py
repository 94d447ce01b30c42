"""Which layout is fastest, of all that fit into memory.

    for all dp · pp · tp = ranks, both orders of the axes, all microbatches, stages of ZeRO, kinds of recomputation:
        memory      too much? Noted, with the bytes that are missing
        time        by the formulas of `step_time`

Some need no formula. Where stage 0 of ZeRO fits, stage 1 does not make a step shorter; where a layout fits without
recomputation, recomputing does not either. Of layouts that take equally long, to 9 digits, the simplest is taken: the
smallest tp, then pp, then stage, least recomputation, fewest microbatches, the usual order of the axes.

What is not considered: layers that are spread unevenly over the stages (they are where nothing else divides), other
schedules than 1F1B, stages of ZeRO within a node only, and nodes that fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from distlib.arguments import check_by_name, check_integer, check_type
from distlib.network import Cluster
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import (
    AXES,
    RECOMPUTE,
    STAGES,
    ParallelLayout,
    boundary_links,
    stage_links,
)
from distlib.training.strategy.step_memory import step_memory
from distlib.training.strategy.step_time import StepPrediction, step_parts
from distlib.training.strategy.strategy_choice import NearMiss, StrategyChoice
from distlib.training.strategy.transformer_shape import TransformerShape

ORDERS = (AXES, ("pp", "dp", "tp"))


def choose_strategy(shape: TransformerShape, device: Device, cluster: Cluster, batch: int) -> StrategyChoice:
    """The fastest layout that fits.

    Args:
        shape: of the model.
        device: of every rank; the cluster's stragglers compute more slowly.
        cluster: all its ranks are used.
        batch: sequences of a step, on all ranks together.

    Raises:
        TypeError: something else than was expected.
        ValueError: no layout divides the heads, the layers and the batch, or none fits into memory: with the one that
            lacks the fewest bytes.
    """
    check_type("choose_strategy", "shape", shape, TransformerShape, "TransformerShape(24, 2048, 8192, 16, 50257, 1024)")
    check_type("choose_strategy", "device", device, Device, "Device(312e12, 80e9)")
    check_by_name("choose_strategy", cluster=cluster)
    check_integer("choose_strategy", "batch", batch, 1)
    considered, misses, timed = 0, dict[tuple[str, int], NearMiss](), list[StepPrediction]()
    for layouts in _alternatives(shape, cluster, batch):
        memory = {layout: step_memory(shape, batch, layout) for layout in layouts}
        considered += len(layouts)
        for layout in layouts:
            _note_miss(misses, layout, sum(memory[layout].values()) - device.memory)
        for layout in _worth_timing([each for each in layouts if sum(memory[each].values()) <= device.memory]):
            timed += [
                StepPrediction(each, memory[layout], step_parts(shape, device, cluster, batch, each))
                for each in _orders(cluster, layout)
            ]
    if not timed:
        raise ValueError(_why_nothing_fits(shape, device, cluster, batch, misses))
    ranked = sorted(timed, key=_rank)
    return StrategyChoice(shape, device, cluster, batch, ranked, considered, misses)


# ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────────


def all_layouts(shape: TransformerShape, cluster: Cluster, batch: int) -> Iterator[ParallelLayout]:
    """Every layout that a model, a cluster and a batch allow, whether it fits into memory or not."""
    for layouts in _alternatives(shape, cluster, batch):
        for layout in layouts:
            yield from _orders(cluster, layout)


def _alternatives(shape: TransformerShape, cluster: Cluster, batch: int) -> Iterator[list[ParallelLayout]]:
    """For each dp, pp, tp and number of microbatches the layouts that differ in ZeRO's stage and recomputation."""
    for tp in _divisors(cluster.world_size):
        if shape.heads % tp or shape.hidden % tp:
            continue
        for pp in _divisors(cluster.world_size // tp):
            dp = cluster.world_size // tp // pp
            if pp <= shape.layers and batch % dp == 0:
                for count in _divisors(batch // dp):
                    yield [
                        ParallelLayout(dp, pp, tp, stage, count, recompute)
                        for stage in (STAGES if dp > 1 else STAGES[:1])
                        for recompute in RECOMPUTE
                    ]


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _orders(cluster: Cluster, layout: ParallelLayout) -> list[ParallelLayout]:
    """The layout with its axes in both orders, if that changes a link."""
    usual, other = (replace(layout, axes=axes) for axes in ORDERS)
    differ = [axis for axis in AXES if stage_links(cluster, usual, axis) != stage_links(cluster, other, axis)]
    same = not differ and boundary_links(cluster, usual) == boundary_links(cluster, other)
    return [usual] if same and not cluster.stragglers else [usual, other]


def _worth_timing(fitting: list[ParallelLayout]) -> list[ParallelLayout]:
    """For each stage of ZeRO the least recomputation; of stages 0 and 1 the second only if it recomputes less."""
    least: dict[int, ParallelLayout] = {}
    for layout in fitting:
        least.setdefault(layout.stage, layout)
    if 0 in least and 1 in least and least[0].recompute == least[1].recompute:
        del least[1]
    return list(least.values())


def _rank(prediction: StepPrediction) -> tuple[object, ...]:
    layout = prediction.layout
    return (
        float(f"{prediction.seconds:.9g}"),
        layout.tp,
        layout.pp,
        layout.stage,
        RECOMPUTE.index(layout.recompute),
        layout.microbatches,
        layout.axes != AXES,
    )


# ── what does not fit ────────────────────────────────────────────────────────────────────────────────────────────────


def _note_miss(misses: dict[tuple[str, int], NearMiss], layout: ParallelLayout, missing: float) -> None:
    if missing > 0:
        for axis in (*AXES, "stage"):
            known = misses.get((axis, getattr(layout, axis)))
            if known is None or missing < known.missing:
                misses[axis, getattr(layout, axis)] = NearMiss(layout, missing)


def _why_nothing_fits(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, misses: dict[tuple[str, int], NearMiss]
) -> str:
    if not misses:
        return (
            f"no layout of {cluster.world_size} ranks divides {shape.heads} heads by tp, a batch of {batch} by dp, and "
            f"has at most {shape.layers} stages. Take another number of ranks, or a larger batch."
        )
    nearest = min(misses.values(), key=lambda miss: miss.missing)
    return (
        f"no layout fits into {device.memory:,.0f} bytes per rank. {nearest.layout} lacks the fewest, "
        f"{nearest.missing:,.0f}: it needs {device.memory + nearest.missing:,.0f}. Take more ranks, or more memory."
    )
