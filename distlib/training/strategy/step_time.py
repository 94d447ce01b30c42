"""How long a step takes, by formulas: part by part, in the words of lessons 09, 10 and 11.

A stage's forward pass takes F, its backward pass B: the sum of its units' computing and of their messages in rings,
(t−1)·(α + S/(t·β)) each. With p stages, m microbatches, c = F + B of a stage, and L for a message between two stages:

    seconds      Σ c  +  2·Σ L  +  (m−1)·max(c of the slowest stage, (Σ c)/p + 2·(k−1)/k·L)  +  dp       k = min(m, p)
                 the first microbatch   one more after the other

    compute      m·c of the slowest stage, as far as it computes what one process would compute, too
    recompute    what it computes once more
    tp           its messages to the ranks that share its layers
    bubble       the first microbatch in the other stages: (p−1)·c where all are alike
    pp           what the messages between stages add, and the gradients of tied weights
    dp           what messages between copies add: gradients and parameters that nothing hides

Messages between copies hide behind computing alone, since a rank has one port: with tp = 1. There a unit's messages
travel while the next unit computes; what is left over is found by walking through the units. With a pipeline, stages 0
and 1 of ZeRO average after the last pass; the first stage ends last, the others have had time in their bubble.

A stage with stragglers among its ranks computes as slowly as the slowest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from distlib.arguments import check_type
from distlib.network import Cluster, Link
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import (
    ParallelLayout,
    axis_link,
    boundary_links,
    check_layout,
    stage_layers,
)
from distlib.training.strategy.stage_work import BYTES, SEND, StageUnit, activation_bytes, unit_kinds
from distlib.training.strategy.step_memory import step_memory
from distlib.training.strategy.transformer_shape import TransformerShape

PARTS = ("compute", "recompute", "tp", "bubble", "pp", "dp")


@dataclass(frozen=True)
class StepPrediction:
    """What a step needs.

    Attributes:
        layout: which.
        memory: kind → bytes, of the fullest rank.
        parts: part → seconds; see the text of this module.
    """

    layout: ParallelLayout
    memory: dict[str, float]
    parts: dict[str, float]

    @cached_property
    def nbytes(self) -> float:
        """Bytes that the fullest rank needs."""
        return sum(self.memory.values())

    @cached_property
    def seconds(self) -> float:
        """Of the whole step."""
        return sum(self.parts.values())


def predict_step(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> StepPrediction:
    """Memory and time of a step, part by part. A layout that does not fit into memory has a time, too.

    Args:
        shape: of the model.
        device: of every rank; the cluster's stragglers compute more slowly.
        cluster: with `layout.world_size` ranks.
        batch: sequences of a step, on all ranks together.
        layout: how they are laid out.

    Raises:
        TypeError, ValueError: as `check_layout`.
    """
    check_type("predict_step", "device", device, Device, "Device(312e12, 80e9)")
    check_layout(shape, cluster, batch, layout)
    return StepPrediction(layout, step_memory(shape, batch, layout), step_parts(shape, device, cluster, batch, layout))


def step_parts(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> dict[str, float]:
    """Part → seconds, of a layout that fits the shape, the cluster and the batch."""
    stages = _stages(shape, device, cluster, batch, layout)
    costs = [cost for cost, _ in stages]
    slowest = max(costs, key=lambda cost: cost.seconds)
    total, count, p = sum(cost.seconds for cost in costs), layout.microbatches, layout.pp
    nbytes = -(-activation_bytes(shape, batch, layout) // layout.tp)
    messages = sum(link.seconds(nbytes) for link in boundary_links(cluster, layout))
    together = min(count, p)
    waiting = (total + 2 * messages * p * (together - 1) / together / max(1, p - 1)) / p
    return {
        "compute": count * slowest.compute,
        "recompute": count * slowest.recompute,
        "tp": count * slowest.tp,
        "bubble": total - slowest.seconds,
        "pp": 2 * messages + (count - 1) * max(0.0, waiting - slowest.seconds) + _tied(shape, cluster, layout),
        "dp": count * slowest.dp + max(after for _, after in stages),
    }


# ── one stage ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _StageCost:
    """Seconds per microbatch of a stage, by part, forward and backward together."""

    compute: float
    recompute: float
    tp: float
    dp: float

    @property
    def seconds(self) -> float:
        return self.compute + self.recompute + self.tp + self.dp


@dataclass
class _CountedUnit:
    """A unit that a stage has `count` times: its messages to ranks of its tp group, and one ring of its parameters."""

    unit: StageUnit
    count: int
    tp: float
    ring: float


def _stages(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> list[tuple[_StageCost, float]]:
    """By stage, its cost and what its copies send after the passes; equal stages are computed once."""
    tp_link, dp_link = axis_link(cluster, layout, "tp"), axis_link(cluster, layout, "dp")
    kinds = [
        _CountedUnit(unit, 1, _messages(unit, tp_link, layout.tp), _ring_of(unit, dp_link, layout.dp))
        for unit in unit_kinds(shape, device, batch, layout)
    ]
    slow, last = _slowdowns(cluster, layout), layout.pp - 1
    known: dict[tuple[int, bool, bool, float], tuple[_StageCost, float]] = {}
    stages = []
    for stage, layers in enumerate(stage_layers(shape, layout)):
        key = (layers, stage == 0, stage == last, slow[stage])
        if key not in known:
            units = [
                replace(kind, count=count)
                for kind, count in zip(kinds, (stage == 0, layers, stage == last), strict=True)
            ]
            after = _after_passes(units, layout, slow[stage]) if stage in (0, last) else 0.0
            known[key] = _stage_cost(units, layout, slow[stage]), after
        stages.append(known[key])
    return stages


def _stage_cost(units: Sequence[_CountedUnit], layout: ParallelLayout, slow: float) -> _StageCost:
    compute = sum(each.count * (3 * each.unit.compute + 2 * each.unit.overhead) for each in units) * slow
    again = sum(each.count * each.unit.again for each in units) * slow
    tp = sum(each.count * each.tp for each in units)
    return _StageCost(compute, again, tp, _dp_of_passes(units, layout, slow))


def _messages(unit: StageUnit, link: Link, size: int) -> float:
    return sum(ring_seconds(link, size, amount) for kind, amount in (*unit.forward, *unit.backward) if kind == SEND)


def _ring_of(unit: StageUnit, link: Link, size: int) -> float:
    return ring_seconds(link, size, unit.parameters * BYTES)


def ring_seconds(link: Link, size: int, nbytes: float) -> float:
    """(N−1)·(α + S/(N·B)): a reduce-scatter, or an all-gather, of S bytes on N ranks."""
    return (size - 1) * (link.latency + -(-nbytes // size) / link.bandwidth)


def _slowdowns(cluster: Cluster, layout: ParallelLayout) -> list[float]:
    """By stage, how many times longer its slowest rank computes."""
    slow = [1.0] * layout.pp
    for stage in range(layout.pp if cluster.stragglers else 0):
        ranks = [rank for rank in range(cluster.world_size) if layout.coordinate("pp", rank) == stage]
        slow[stage] = max(cluster.stragglers.get(rank, 1.0) for rank in ranks)
    return slow


# ── between the copies ───────────────────────────────────────────────────────────────────────────────────────────────


def _dp_of_passes(units: Sequence[_CountedUnit], layout: ParallelLayout, slow: float) -> float:
    """What stages 2 and 3 of ZeRO add to the passes of each microbatch."""
    if layout.dp == 1 or layout.stage < 2:
        return 0.0
    gathers = layout.stage == 3
    if layout.tp > 1:
        return sum(each.count * each.ring for each in units) * (3 if gathers else 1)
    walk = [each for each in units for _ in range(each.count)]
    rings = [each.ring for each in walk]
    gathered, nothing = (rings if gathers else [0.0] * len(rings)), [0.0] * len(rings)
    forward = [(each.unit.compute + each.unit.overhead) * slow for each in walk]
    return _left_over(forward, gathered, nothing) + _left_over(_backward(walk, slow), gathered[::-1], rings[::-1])


def _backward(walk: Sequence[_CountedUnit], slow: float) -> list[float]:
    """Seconds of computing, in the order of the backward pass."""
    return [(2 * each.unit.compute + each.unit.again + each.unit.overhead) * slow for each in reversed(walk)]


def _left_over(computing: Sequence[float], gathers: Sequence[float], averages: Sequence[float]) -> float:
    """What a pass takes beyond its computing. Messages go one after another; a unit computes when it is gathered.

    background    gather 0   gather 1          average 0   gather 2   average 1 …
    computing                unit 0 ─────────► unit 1 ───────────────► unit 2
    """
    clock = background = gathered = gathers[0]
    averaged = 0.0
    for place, seconds in enumerate(computing):
        clock = max(clock, gathered)
        if place + 1 < len(computing) and gathers[place + 1]:
            gathered = background = max(background, clock) + gathers[place + 1]
        clock += seconds
        if averages[place]:
            before, averaged = averaged, max(background, clock) + averages[place]
            background, clock = averaged, max(clock, before)
    return max(clock, background) - sum(computing)


def _after_passes(units: Sequence[_CountedUnit], layout: ParallelLayout, slow: float) -> float:
    """What averaging in the last backward pass, or after it, adds, and the gathering of new parameters."""
    if layout.dp == 1 or layout.stage == 3:
        return 0.0
    ring = sum(each.count * each.ring for each in units)
    gather = 0.0 if layout.stage == 0 else ring
    if layout.stage == 2:
        return gather
    rings = 2 if layout.stage == 0 else 1
    if layout.pp > 1 or layout.tp > 1:
        return rings * ring + gather
    walk = [each for each in units for _ in range(each.count)]
    averages = [rings * each.ring for each in reversed(walk)]
    return _left_over(_backward(walk, slow), [0.0] * len(walk), averages) + gather


# ── between the stages ───────────────────────────────────────────────────────────────────────────────────────────────


def _tied(shape: TransformerShape, cluster: Cluster, layout: ParallelLayout) -> float:
    """An all-reduce between the first and the last stage of the gradients of what they share."""
    if layout.pp == 1 or not shape.tied:
        return 0.0
    nbytes = -(-shape.vocabulary // layout.tp) * shape.features * BYTES
    return 2 * ring_seconds(axis_link(cluster, layout, "pp"), 2, nbytes)
