"""A choice among layouts, and why it was made, in sentences with numbers.

tp 8: its groups fit a node: its messages take 935 ms at 300 GB/s, 9.1% of the step. Across nodes they would …
pp 4: the bubble costs 4.8% of the step, … With pp 2 the best takes 10.4 s, 1.0% more: messages of dp 392 ms more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from distlib.network import Cluster, Link
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import AXES, ParallelLayout, axis_link
from distlib.training.strategy.step_memory import step_memory
from distlib.training.strategy.step_time import PARTS, StepPrediction, step_parts
from distlib.training.strategy.transformer_shape import TransformerShape
from distlib.training.strategy.utilization import model_flops_utilization

_COSTS = {
    "compute": "computing",
    "recompute": "recomputation",
    "tp": "messages of tp",
    "bubble": "bubble",
    "pp": "messages of pp",
    "dp": "messages of dp",
}
NEXT_BEST = 3


@dataclass(frozen=True)
class NearMiss:
    """A layout that does not fit, and the bytes that its fullest rank lacks."""

    layout: ParallelLayout
    missing: float


@dataclass(frozen=True)
class StrategyChoice:
    """The fastest layout, and what it was compared with. As a string: why.

    Attributes:
        shape, device, cluster, batch: for what it was chosen.
        ranked: the layouts that were timed, the fastest first.
        considered: how many layouts there are; the order of the axes not counted.
        misses: by axis and size, the layout that lacks the fewest bytes of those that do not fit.
    """

    shape: TransformerShape
    device: Device
    cluster: Cluster
    batch: int
    ranked: list[StepPrediction] = field(repr=False)
    considered: int
    misses: dict[tuple[str, int], NearMiss] = field(repr=False)

    @property
    def best(self) -> StepPrediction:
        """The fastest of the layouts that were timed."""
        return self.ranked[0]

    @property
    def layout(self) -> ParallelLayout:
        """The layout of the fastest step."""
        return self.best.layout

    @cached_property
    def utilization(self) -> float:
        """Its predicted model FLOPs utilization."""
        return model_flops_utilization(self.shape, self.device, self.cluster.world_size, self.batch, self.best.seconds)

    def __str__(self) -> str:
        return "\n".join(_reasons(self))


def _reasons(choice: StrategyChoice) -> Iterator[str]:
    """Line by line: the choice, a line for each axis, for memory, and the next best layouts."""
    best = choice.best
    yield (
        f"{best.layout}: {in_seconds(best.seconds)} per step, {best.nbytes / 1e9:.1f} of "
        f"{choice.device.memory / 1e9:g} GB, model FLOPs utilization {choice.utilization:.1%}. "
        f"The fastest of {choice.considered:,} layouts."
    )
    yield f"tp {best.layout.tp}: {_about_tp(choice)} {_instead(choice, 'tp')}"
    yield f"pp {best.layout.pp}: {_about_pp(choice)} {_instead(choice, 'pp')}"
    yield f"dp {best.layout.dp}: {_about_dp(choice)} {_instead(choice, 'dp')}"
    yield _about_memory(choice)
    others = _next_best(choice)
    if others:
        yield "Next best:"
        yield from (f"  {other.layout}: {_compared(best, other)}" for other in others)


def in_seconds(seconds: float) -> str:
    """ "3.2 s", "45 ms", "12 µs"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


def _speed(link: Link) -> str:
    return f"{link.bandwidth / 1e9:g} GB/s"


def _share(best: StepPrediction, part: str) -> str:
    return f"{best.parts[part] / best.seconds:.1%} of the step"


# ── axis by axis ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _about_tp(choice: StrategyChoice) -> str:
    best, cluster = choice.best, choice.cluster
    if best.layout.tp == 1:
        return "no layer is cut, and nothing is sent inside a layer."
    link = axis_link(cluster, best.layout, "tp")
    inside = cluster.nodes == 1 or cluster.ranks_per_node % best.layout.tp == 0
    sent = f"its messages take {in_seconds(best.parts['tp'])} at {_speed(link)}, {_share(best, 'tp')}"
    if cluster.nodes == 1:
        return f"there is one node, {sent}."
    if not inside:
        return f"its groups reach beyond a node: {sent}."
    across = replace(best.layout, axes=("tp", "dp", "pp"))
    other = step_parts(choice.shape, choice.device, cluster, choice.batch, across)["tp"]
    return f"its groups fit a node: {sent}. Across nodes they would take {in_seconds(other)}."


def _about_pp(choice: StrategyChoice) -> str:
    best = choice.best
    if best.layout.pp == 1:
        return "every rank has all layers, and there is no bubble."
    messages = f"messages between stages cost {best.parts['pp'] / best.seconds:.1%}"
    return f"the bubble costs {_share(best, 'bubble')}, {messages}."


def _about_dp(choice: StrategyChoice) -> str:
    best, layout = choice.best, choice.best.layout
    if layout.dp == 1:
        return "there is one copy of the model."
    link = axis_link(choice.cluster, layout, "dp")
    return f"messages between copies that nothing hides cost {_share(best, 'dp')}, at {_speed(link)}."


def _instead(choice: StrategyChoice, axis: str) -> str:
    """What the best layout with another size of an axis would cost."""
    size = getattr(choice.layout, axis)
    other = next((each for each in choice.ranked if getattr(each.layout, axis) != size), None)
    smaller = [(at, miss) for (name, at), miss in choice.misses.items() if name == axis and at < size]
    timed = {getattr(each.layout, axis) for each in choice.ranked}
    words = f"With {axis} {getattr(other.layout, axis)} the best {_compared(choice.best, other)}" if other else ""
    lacking = [(at, miss) for at, miss in smaller if at not in timed]
    if lacking:
        at, miss = max(lacking, key=lambda pair: pair[0])
        words += f"{' ' * bool(words)}With {axis} {at} nothing fits: {miss.missing / 1e9:.1f} GB are missing."
    return words


def _compared(best: StepPrediction, other: StepPrediction) -> str:
    """How much longer another layout takes, and what costs most of that."""
    more = other.seconds - best.seconds
    if more <= 1e-9 * best.seconds:
        return "takes as long."
    part = max(PARTS, key=lambda name: other.parts[name] - best.parts[name])
    extra = other.parts[part] - best.parts[part]
    return (
        f"takes {in_seconds(other.seconds)}, {more / best.seconds:.1%} more: {_COSTS[part]} {in_seconds(extra)} more."
    )


def _next_best(choice: StrategyChoice) -> list[StepPrediction]:
    """The next layouts that differ in dp, pp or tp from each other."""
    sizes = {_sizes(choice.layout)}
    found: list[StepPrediction] = []
    for each in choice.ranked:
        if _sizes(each.layout) not in sizes and len(found) < NEXT_BEST:
            sizes.add(_sizes(each.layout))
            found.append(each)
    return found


def _sizes(layout: ParallelLayout) -> tuple[int, ...]:
    return tuple(layout.size(axis) for axis in AXES)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _about_memory(choice: StrategyChoice) -> str:
    best, layout = choice.best, choice.best.layout
    parts = ", ".join(f"{kind} {nbytes / 1e9:.1f}" for kind, nbytes in best.memory.items() if nbytes)
    words = [f"Memory of the fullest rank, in GB: {parts}."]
    for name, value, plainer in (("stage", layout.stage, "ZeRO's stage"), ("recompute", layout.recompute, "")):
        less = _less_of(layout, name)
        if less is not None:
            words.append(_what_less_would_do(choice, less, plainer, value))
    return " ".join(words)


def _less_of(layout: ParallelLayout, name: str) -> ParallelLayout | None:
    """The same layout with the next lower stage of ZeRO, or without recomputation; None if there is none."""
    if name == "stage":
        return replace(layout, stage=layout.stage - 1) if layout.stage else None
    return replace(layout, recompute="none") if layout.recompute != "none" else None


def _what_less_would_do(choice: StrategyChoice, less: ParallelLayout, words: str, value: object) -> str:
    missing = sum(step_memory(choice.shape, choice.batch, less).values()) - choice.device.memory
    what = f"At {words} {less.stage}" if words else "Without recomputation"
    if missing > 0:
        return f"{what} it would lack {missing / 1e9:.1f} GB."
    seconds = sum(step_parts(choice.shape, choice.device, choice.cluster, choice.batch, less).values())
    return f"{what} it would fit, and take {in_seconds(seconds)}."
