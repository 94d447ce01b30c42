"""Lay out the cluster: a game. Train a model on the machines that there are, in as little time as you can.

    lay_out(1, dp=2, tp=2, stage=1, microbatches=2)

    dp, pp, tp        copies of the model, stages of the pipeline, ranks that share a layer: together all ranks
    stage             of ZeRO, 0 to 3
    microbatches      of each copy
    recompute         "none", "attention" (its scores) or "full" (each layer)
    order             of the axes, the slowest first: "dp-pp-tp" puts the ranks of a tp group next to each other
    layers            of each stage, such as (5, 3); None: so that they take about as long as each other

The step is played on simulated ranks, which tells the time and what travels where; what each rank needs is told by the
formulas of `step_memory`. A layout that does not fit gets no points. Otherwise it is 10 · (par's seconds / your
seconds), rounded down.

Par is what `choose_strategy` chooses, played in the same way: 10 points. It does not try every number of layers per
stage. Where machines are not alike, that can be beaten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from distlib.network import Cluster, Link
from distlib.training.par_points import in_words, points_for, sum_in_words
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import AXES, ParallelLayout, check_layout
from distlib.training.strategy.played_step import PlayedStep, simulate_step
from distlib.training.strategy.step_memory import step_memory
from distlib.training.strategy.strategy_choice import StrategyChoice
from distlib.training.strategy.strategy_search import choose_strategy
from distlib.training.strategy.transformer_shape import TransformerShape


@dataclass(frozen=True)
class ClusterLevel:
    """A model, a batch and machines.

    Attributes:
        number, name: from 1 on.
        shape, device, cluster, batch: what is trained, on what; sequences of a step.
    """

    number: int
    name: str
    shape: TransformerShape
    device: Device
    cluster: Cluster
    batch: int

    @cached_property
    def choice(self) -> StrategyChoice:
        """What `choose_strategy` chooses, and why."""
        return choose_strategy(self.shape, self.device, self.cluster, self.batch)

    @property
    def par(self) -> ParallelLayout:
        """The layout that is par."""
        return self.choice.layout

    @property
    def par_seconds(self) -> float:
        """The seconds of a step at par."""
        return _played(self.number, self.par).seconds

    def __str__(self) -> str:
        cluster = self.cluster
        slow = f" Ranks {', '.join(map(str, cluster.stragglers))} compute more slowly." if cluster.stragglers else ""
        return (
            f"Level {self.number}, {self.name}: {self.shape}, a batch of {self.batch}. {cluster.world_size} ranks with "
            f"{self.device.memory / 1e9:g} GB each: {cluster}.{slow} Par: {self.par_seconds * 1e3:.0f} ms."
        )


@dataclass(frozen=True)
class LaidOut:
    """A layout that was played.

    Attributes:
        level, layout: which.
        memory: kind → bytes, of the fullest rank.
        played: the step: seconds, and what was sent where.
    """

    level: ClusterLevel
    layout: ParallelLayout
    memory: dict[str, float]
    played: PlayedStep

    @property
    def missing(self) -> float:
        """Bytes that the fullest rank lacks; below 0 if it has some left."""
        return sum(self.memory.values()) - self.level.device.memory

    @property
    def points(self) -> int:
        """10 for par's seconds; none if it does not fit."""
        return 0 if self.missing > 0 else points_for(self.played.seconds, self.level.par_seconds)

    def __str__(self) -> str:
        level, total = self.level, sum(self.memory.values())
        fits = f"{self.missing / 1e9:.2f} GB too many" if self.missing > 0 else "fits"
        parts = ", ".join(f"{kind} {nbytes / 1e9:.1f}" for kind, nbytes in self.memory.items() if nbytes)
        sent = ", ".join(f"{axis} {nbytes / 1e9:.2f}" for axis, nbytes in self.played.crossing.items())
        between = f"between nodes, in GB: {sent}" if level.cluster.nodes > 1 else "there is one node"
        return "\n".join(
            [
                f"memory  {total / 1e9:5.1f} GB of {level.device.memory / 1e9:g}: {fits}. In GB: {parts}",
                f"time    {self.played.seconds * 1e3:5.0f} ms, par {level.par_seconds * 1e3:.0f}; "
                f"ranks do not compute for {self.played.bubble:.0%} of it",
                f"sent    {between}",
                f"level {level.number}: {in_words(self.points)}",
            ]
        )


def lay_out(
    number: int,
    *,
    dp: int = 1,
    pp: int = 1,
    tp: int = 1,
    stage: int = 0,
    microbatches: int = 1,
    recompute: str = "none",
    order: str = "-".join(AXES),
    layers: Sequence[int] | None = None,
) -> LaidOut:
    """Play a level; see the text of this module.

    Raises:
        ValueError: no such level, or a layout that the level does not allow.
    """
    axes = tuple(str(order).split("-"))
    if sorted(axes) != sorted(AXES):
        raise ValueError(f"expected dp, pp and tp in some order, such as 'dp-pp-tp', got {order!r}")
    spread = None if layers is None else tuple(layers)
    layout = ParallelLayout(dp, pp, tp, stage, microbatches, recompute, (axes[0], axes[1], axes[2]), spread)
    return play_layout(cluster_level(number), layout)


def play_layout(level: ClusterLevel, layout: ParallelLayout) -> LaidOut:
    """As `lay_out`, with a level and a layout. Played once, it is known."""
    check_layout(level.shape, level.cluster, level.batch, layout)
    return LaidOut(level, layout, step_memory(level.shape, level.batch, layout), _played(level.number, layout))


@lru_cache(maxsize=4096)
def _played(number: int, layout: ParallelLayout) -> PlayedStep:
    level = cluster_level(number)
    return simulate_step(level.shape, level.device, level.cluster, level.batch, layout)


def cluster_level(number: int) -> ClusterLevel:
    """A level by its number, from 1 on.

    Raises:
        ValueError: there is none.
    """
    if number not in range(1, len(LEVELS) + 1):
        raise ValueError(f"expected a level from 1 to {len(LEVELS)}, got {number!r}")
    return LEVELS[number - 1]


# ── the levels ───────────────────────────────────────────────────────────────────────────────────────────────────────

_INSIDE, _BETWEEN, _SLOW = Link(3e-6, 250e9), Link(8e-6, 25e9), Link(30e-6, 3e9)


def _device(gigabytes: float) -> Device:
    return Device(peak=312e12, memory=gigabytes * 1e9, reached=0.6, overhead=100e-6)


LEVELS = (
    ClusterLevel(
        1, "one box", TransformerShape(6, 4096, 16_384, 32, 32_000, 2048), _device(24), Cluster.flat(4, _INSIDE), 8
    ),
    ClusterLevel(
        2,
        "two boxes",
        TransformerShape(4, 8192, 32_768, 64, 32_000, 2048),
        _device(16),
        Cluster(2, 4, _INSIDE, _BETWEEN),
        8,
    ),
    ClusterLevel(
        3,
        "a slow network",
        TransformerShape(8, 4096, 16_384, 32, 32_000, 2048),
        _device(40),
        Cluster(4, 1, _SLOW, _SLOW),
        16,
    ),
    ClusterLevel(
        4,
        "little room",
        TransformerShape(3, 7168, 28_672, 56, 32_000, 4096),
        _device(10),
        Cluster(2, 4, _INSIDE, _BETWEEN),
        8,
    ),
    ClusterLevel(
        5,
        "unequal machines",
        TransformerShape(9, 4096, 16_384, 32, 32_000, 2048),
        _device(40),
        Cluster(2, 2, _INSIDE, _SLOW, stragglers={2: 2.0, 3: 2.0}),
        16,
    ),
)
"""The levels, which get harder."""


def score_card(attempts: Sequence[LaidOut]) -> str:
    """The best attempt at each level, and the sum, as text."""
    lines, total = ["level                 memory      time   points"], 0
    for level in LEVELS:
        best = max((each for each in attempts if each.level == level), key=lambda each: each.points, default=None)
        name = f"{level.number} {level.name}"
        if best is None:
            lines.append(f"{name:19}      -")
            continue
        memory = sum(best.memory.values()) / 1e9
        lines.append(f"{name:19} {memory:5.1f} GB {best.played.seconds * 1e3:6.0f} ms {best.points:8}")
        total += best.points
    return "\n".join([*lines, sum_in_words(total, len(LEVELS))])
