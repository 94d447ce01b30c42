"""How long the passes of one stage take, with what its copies send meanwhile, and afterwards.

    background    gather 1          average 0   gather 2      average 1 …        with tp = 1: behind computing
    computing     unit 0 ─────────► unit 1 ──────────────────► unit 2

What copies send goes one after another in the background; a unit computes when it is gathered. A rank has one port:
the first message of tp waits until the background is done. So with tp = 1 a whole unit's computing hides messages, and
with tp > 1 only what a unit computes before its first message. What is left over is found by walking through the units.

With a pipeline, stages 0 and 1 of ZeRO average after the last pass, so that no gradient waits on its way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from distlib.network import Cluster, Link
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import ParallelLayout, stage_layers, stage_links
from distlib.training.strategy.stage_work import BYTES, COMPUTE, StageUnit, WorkStep, unit_kinds
from distlib.training.strategy.transformer_shape import TransformerShape


@dataclass(frozen=True)
class StageTime:
    """Seconds per microbatch of a stage.

    Attributes:
        compute, recompute, tp, dp: of both passes together; see `step_time`.
        forward, backward: of each pass: together as much as the four parts.
        after: what its copies send after all passes, or what of the last backward pass's averages nothing hides.
    """

    compute: float
    recompute: float
    tp: float
    dp: float
    forward: float
    backward: float
    after: float

    @property
    def seconds(self) -> float:
        """The seconds of the forward and the backward pass of a microbatch."""
        return self.forward + self.backward


class UnitPass(NamedTuple):
    """A pass through a unit: seconds before its first message of tp, and from there on."""

    lead: float
    rest: float


class TimedUnit(NamedTuple):
    """A unit with its times: both passes, its messages of tp in both, one ring of its parameters over the copies."""

    unit: StageUnit
    forward: UnitPass
    backward: UnitPass
    tp: float
    ring: float


def stage_times(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> list[StageTime]:
    """By stage; equal stages are computed once."""
    kinds = unit_kinds(shape, device, batch, layout)
    further = layout.microbatches - 1  # the first one has each stage to itself
    tp, dp = (stage_links(cluster, layout, axis, further / max(1, further + layout.pp - 1)) for axis in ("tp", "dp"))
    after = stage_links(cluster, layout, "dp")
    slow, last = _slowdowns(cluster, layout), layout.pp - 1
    known: dict[tuple[object, ...], StageTime] = {}
    timed: dict[tuple[float, Link, Link], list[TimedUnit]] = {}
    times = []
    for stage, layers in enumerate(stage_layers(shape, layout)):
        key = (layers, stage == 0, stage == last, slow[stage], tp[stage], dp[stage], after[stage])
        if key not in known:
            ways = slow[stage], tp[stage], dp[stage]
            if ways not in timed:
                timed[ways] = [_timed(unit, layout, *ways) for unit in kinds]
            first, layer, head = timed[ways]
            units = [*[first] * (stage == 0), *[layer] * layers, *[head] * (stage == last)]
            known[key] = _stage_time(units, layout, slow[stage], after[stage])
        times.append(known[key])
    return times


def ring_seconds(link: Link, size: int, nbytes: float) -> float:
    """(N−1)·(α + S/(N·B)): a reduce-scatter, or an all-gather, of S bytes on N ranks."""
    return (size - 1) * (link.latency + -(-nbytes // size) / link.bandwidth)


def _slowdowns(cluster: Cluster, layout: ParallelLayout) -> list[float]:
    """By stage, how many times longer its slowest rank computes."""
    factors: list[list[float]] = [[] for _ in range(layout.pp)]
    for rank, factor in cluster.stragglers.items():
        factors[layout.coordinate("pp", rank)].append(factor)
    others = layout.dp * layout.tp  # ranks of a stage; those that are no stragglers have 1
    return [max([1.0] * (len(found) < others) + found) for found in factors]


def _timed(unit: StageUnit, layout: ParallelLayout, slow: float, tp_link: Link, dp_link: Link) -> TimedUnit:
    def seconds(step: WorkStep) -> float:
        return step.amount * slow if step.kind == COMPUTE else ring_seconds(tp_link, layout.tp, step.amount)

    def timed(steps: Sequence[WorkStep]) -> UnitPass:
        lead = sum(map(seconds, takewhile(lambda step: step.kind == COMPUTE, steps)))
        return UnitPass(lead, sum(map(seconds, steps)) - lead)

    messages = [step for step in (*unit.forward, *unit.backward) if step.kind != COMPUTE]
    ring = ring_seconds(dp_link, layout.dp, unit.parameters * BYTES)
    return TimedUnit(unit, timed(unit.forward), timed(unit.backward), sum(map(seconds, messages)), ring)


def _stage_time(units: Sequence[TimedUnit], layout: ParallelLayout, slow: float, after_link: Link) -> StageTime:
    compute = sum(3 * each.unit.compute + 2 * each.unit.overhead for each in units) * slow
    again = sum(each.unit.again for each in units) * slow
    forward, backward = _passes(units, layout)
    tp = sum(each.tp for each in units)
    after = _after_passes(units, layout, after_link)
    return StageTime(compute, again, tp, forward + backward - compute - again - tp, forward, backward, after)


def _passes(units: Sequence[TimedUnit], layout: ParallelLayout) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass of a microbatch that is not the last one."""
    forward, backward = [each.forward for each in units], [each.backward for each in reversed(units)]
    if layout.dp == 1 or layout.stage < 2:
        return sum(map(sum, forward)), sum(map(sum, backward))
    rings, nothing = [each.ring for each in units], [0.0] * len(units)
    gathers = rings if layout.stage == 3 else nothing
    return pass_seconds(forward, gathers, nothing), pass_seconds(backward, gathers[::-1], rings[::-1], waits=True)


def pass_seconds(
    passes: Sequence[UnitPass], gathers: Sequence[float], averages: Sequence[float], waits: bool = False
) -> float:
    """How long a pass takes, until everything is computed and sent.

    Args:
        passes: through each unit, in order.
        gathers: of each unit, the seconds of its all-gather; the next one's begins when this one begins to compute.
        averages: of each unit, the seconds of what is sent after it.
        waits: whether an average must be over when the one of the next unit begins.
    """
    clock = background = gathered = gathers[0]
    averaged = 0.0
    for number, (lead, rest) in enumerate(passes):
        clock = max(clock, gathered)
        if number + 1 < len(passes) and gathers[number + 1]:
            gathered = background = max(background, clock) + gathers[number + 1]
        clock += lead
        if rest:
            clock = max(clock, background) + rest
        if averages[number]:
            before, averaged = averaged, max(background, clock) + averages[number]
            background, clock = averaged, max(clock, before if waits else 0.0)
    return max(clock, background)


def _after_passes(units: Sequence[TimedUnit], layout: ParallelLayout, link: Link) -> float:
    """What averaging in the last backward pass, or after it, adds, and the gathering of new parameters."""
    if layout.dp == 1 or layout.stage == 3:
        return 0.0
    rings = [ring_seconds(link, layout.dp, each.unit.parameters * BYTES) for each in units]
    gather = 0.0 if layout.stage == 0 else sum(rings)
    if layout.stage == 2:
        return gather
    averages = [(2 if layout.stage == 0 else 1) * ring for ring in reversed(rings)]
    if layout.pp > 1:
        return sum(averages) + gather
    backward = [each.backward for each in reversed(units)]
    return pass_seconds(backward, [0.0] * len(units), averages) - sum(map(sum, backward)) + gather
