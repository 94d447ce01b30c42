"""Memory golf: train a model in the memory that each rank has, in as little time as you can.

    swing(1, stage=3, blocks_per_unit=2, checkpointed=4, microbatches=1)

    stage              0 to 3; what is sharded
    blocks_per_unit    blocks that are gathered and averaged together; the last unit may have fewer
    checkpointed       of how many blocks only the input is kept; the rest is computed again in the backward pass
    microbatches       the rank's tokens are split into this many equal parts, whose gradients add up
    prefetch           stage 3: whether the next unit is gathered while one computes
    reshard            stage 3: whether units are freed after their forward pass

A step is a list of actions. An account adds up what is alive after each of them; the same actions are played on
simulated ranks, with messages of the right sizes, which tells the time. A rank that has more bytes alive than the
limit gets no points. Otherwise par's seconds give 10 points. Each 2 % more of them costs a point, each 2 % less gives
one.

Par is the fastest choice that fits among those with units of one or two blocks, and none, a quarter, a half, three
quarters or all of the blocks checkpointed. A finer choice beats it, at every hole.

What the account holds, for Ψ parameters in bfloat16 on N ranks, with Adam:

    parameters       2·Ψ, or 2·Ψ/N at stage 3, and 2 per parameter of each unit that is whole or on its way
    gradients        2·Ψ at stages 0 and 1, as they come; 2·Ψ/N at stages 2 and 3
    buffers          at stages 2 and 3, 2 per parameter of each unit whose gradients are on their way
    states           12·Ψ, or 12·Ψ/N from stage 1 on
    activations      of a block, `block_activations` per token; 2 · features of a checkpointed one, and all of it while
                     it is computed again

The time is that of products of matrices and of messages: 2 operations per parameter and token forward, 4 backward, and
a tenth of a millisecond for each pass through a block.

Source of `block_activations`: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
MLSys 2023, equation 2 without the scores of the attention, 34 · s · b · h bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch

from distlib.arguments import check_integer
from distlib.network import Cluster, Link
from distlib.training.par_points import PAR, in_words, sum_in_words
from distlib.training.zero.live_bytes import ACTIVATIONS, KINDS, Sample
from distlib.training.zero.shard_unit import BUFFERS, GRADIENTS, PARAMETERS, STATES
from distlib.training.zero.stage_memory import STAGES
from distlib.training.zero.step_plan import (
    AVERAGE,
    BACKWARD,
    FORWARD,
    GATHER,
    REDUCE,
    WAIT,
    UnitAction,
    play_step,
    step_plan,
)
from distlib.worlds.simulated.simulator import SimulatedWorld

MOST_PASSES = 1_024
"""Of units in a step: microbatches times units. More would take long to play."""


@dataclass(frozen=True)
class StepChoice:
    """What a player chooses; see the text of this module."""

    stage: int = 0
    blocks_per_unit: int = 1
    checkpointed: int = 0
    microbatches: int = 1
    prefetch: bool = True
    reshard: bool = True


@dataclass(frozen=True)
class Hole:
    """A model, ranks, and the memory of each.

    Attributes:
        number, name: from 1 on.
        blocks, features: of a transformer; a block has 12 · features² parameters.
        tokens: of each rank in a step.
        ranks: how many.
        limit: bytes that each rank may have alive.
        link: between any two ranks.
        par: the choice that gives ten points; see the text of this module.
        speed: operations per second of a rank.
        overhead: seconds of a block's pass, forward, backward or again, that do not depend on its tokens.
        block_activations: bytes per token and feature that a block keeps for its backward pass.
    """

    number: int
    name: str
    blocks: int
    features: int
    tokens: int
    ranks: int
    limit: float
    link: Link
    par: StepChoice = field(repr=False)
    speed: float = 200e12
    overhead: float = 100e-6
    block_activations: int = 34

    @property
    def block_length(self) -> int:
        """The parameters of a block."""
        return 12 * self.features**2

    @cached_property
    def par_seconds(self) -> float:
        """The seconds of a step at par."""
        return seconds_of(self, self.par)

    def __str__(self) -> str:
        billions = self.blocks * self.block_length / 1e9
        return (
            f"Hole {self.number}, {self.name}: {self.blocks} blocks of {self.features:,} features, {billions:.1f} "
            f"billion parameters, on {self.ranks} ranks with {self.limit / 1e9:g} GB each. {self.tokens:,} tokens per "
            f"rank and step. Links of {self.link.bandwidth / 1e9:g} GB/s and {self.link.latency * 1e6:g} µs. "
            f"Par: {self.par_seconds * 1e3:.0f} ms."
        )


@dataclass(frozen=True)
class Swing:
    """A step that was played.

    Attributes:
        hole, choice: which.
        seconds: of the step.
        samples: what is alive, in order; for `draw.memory_over_time`.
    """

    hole: Hole
    choice: StepChoice
    seconds: float
    samples: Sequence[Sample] = field(repr=False)

    @property
    def peak(self) -> Sample:
        """The sample with the most bytes; the first, if there are several."""
        return max(self.samples, key=lambda sample: sample.total)

    @property
    def missing(self) -> float:
        """Bytes that a rank lacks at the peak; below 0 if it has some left."""
        return self.peak.total - self.hole.limit

    @property
    def points(self) -> int:
        """10 for par's seconds, one less for each 2 % more of them; none above the limit."""
        return 0 if self.missing > 0 else golf_points(self.seconds, self.hole.par_seconds)

    @property
    def computing(self) -> float:
        """Seconds of the step in which a rank computes; in the others it waits for messages."""
        return sum(
            _seconds_of_action(self.hole, self.choice, action)
            for action in whole_plan(self.hole, self.choice)
            if action.kind in (FORWARD, BACKWARD)
        )

    def __str__(self) -> str:
        hole, peak = self.hole, self.peak
        parts = ", ".join(f"{kind} {nbytes / 1e9:.1f}" for kind, nbytes in peak.bytes.items() if nbytes)
        fits = f"{self.missing / 1e9:.2f} GB too many" if self.missing > 0 else "fits"
        return "\n".join(
            [
                f"memory  {peak.total / 1e9:6.1f} GB of {hole.limit / 1e9:g}: {fits}. At the peak, in the {peak.phase} "
                f"pass, in GB: {parts}",
                f"time    {self.seconds * 1e3:6.0f} ms, par {hole.par_seconds * 1e3:.0f}",
                f"hole {hole.number}: {in_words(self.points)}",
            ]
        )


def golf_points(seconds: float, par_seconds: float) -> int:
    """10 for par's seconds; each 2 % of them more costs a point, and each 2 % less gives one."""
    return max(0, math.floor(PAR - (seconds / par_seconds - 1) / 0.02 + 1e-9))


def swing(
    number: int,
    *,
    stage: int = 0,
    blocks_per_unit: int = 1,
    checkpointed: int = 0,
    microbatches: int = 1,
    prefetch: bool = True,
    reshard: bool = True,
) -> Swing:
    """Play a hole; see the text of this module.

    Raises:
        ValueError: no such hole, or a number that the hole does not allow.
    """
    hole = hole_of(number)
    choice = StepChoice(stage, blocks_per_unit, checkpointed, microbatches, bool(prefetch), bool(reshard))
    return play_choice(hole, choice)


def play_choice(hole: Hole, choice: StepChoice) -> Swing:
    """As `swing`, with a hole and a choice. Its time is played once, and then known.

    Raises:
        ValueError: a number that the hole does not allow.
    """
    _check_choice(hole, choice)
    return Swing(hole, choice, seconds_of(hole, choice), account_of_step(hole, choice))


def hole_of(number: int) -> Hole:
    """A hole by its number, from 1 on.

    Raises:
        ValueError: there is none.
    """
    if number not in range(1, len(HOLES) + 1):
        raise ValueError(f"expected a hole from 1 to {len(HOLES)}, got {number!r}")
    return HOLES[number - 1]


def _check_choice(hole: Hole, choice: StepChoice) -> None:
    check_integer("swing", "stage", choice.stage, 0)
    check_integer("swing", "blocks_per_unit", choice.blocks_per_unit, 1)
    check_integer("swing", "checkpointed", choice.checkpointed, 0)
    check_integer("swing", "microbatches", choice.microbatches, 1)
    if choice.stage not in STAGES:
        raise ValueError(f"expected a stage from 0 to {STAGES[-1]}, got {choice.stage}")
    for name, value in (("blocks_per_unit", choice.blocks_per_unit), ("checkpointed", choice.checkpointed)):
        if value > hole.blocks:
            raise ValueError(f"{name}: hole {hole.number} has {hole.blocks} blocks, got {value}")
    if hole.tokens % choice.microbatches:
        raise ValueError(f"microbatches: {hole.tokens:,} tokens can't be split into {choice.microbatches} equal parts")
    passes = choice.microbatches * len(unit_sizes(hole, choice))
    if passes > MOST_PASSES:
        raise ValueError(f"microbatches × units: at most {MOST_PASSES:,} are played, got {passes:,}")


# ── the actions of a step ────────────────────────────────────────────────────────────────────────────────────────────


def unit_sizes(hole: Hole, choice: StepChoice) -> list[int]:
    """How many blocks each unit has, in order."""
    return [min(choice.blocks_per_unit, hole.blocks - first) for first in range(0, hole.blocks, choice.blocks_per_unit)]


def microbatch_plan(hole: Hole, choice: StepChoice, last: bool) -> list[UnitAction]:
    """The actions of one microbatch; `last`: of the step, in which stages 0 and 1 send their gradients, too."""
    units = len(unit_sizes(hole, choice))
    if choice.stage == 3:
        return step_plan(units, reshard_after_forward=choice.reshard, prefetch=choice.prefetch)
    plan = [UnitAction(FORWARD, unit) for unit in range(units)]
    under_way: list[int] = []
    for unit in reversed(range(units)):
        plan.append(UnitAction(BACKWARD, unit))
        if last or choice.stage == 2:
            plan.append(UnitAction(REDUCE, unit))
            plan += [UnitAction(AVERAGE, before) for before in under_way]
            under_way = [unit]
    plan += [UnitAction(AVERAGE, unit) for unit in under_way]
    if last:  # the averages of DDP, or the new parameters of stages 1 and 2, come from the other ranks
        plan += [UnitAction(GATHER, unit) for unit in range(units)] + [UnitAction(WAIT, unit) for unit in range(units)]
    return plan


def whole_plan(hole: Hole, choice: StepChoice) -> list[UnitAction]:
    """The actions of all microbatches of a step."""
    count = choice.microbatches
    return [action for number in range(count) for action in microbatch_plan(hole, choice, number == count - 1)]


def _checkpointed_in(hole: Hole, choice: StepChoice, unit: int) -> list[bool]:
    """For each block of a unit; the first blocks of the model are those that are checkpointed."""
    first = unit * choice.blocks_per_unit
    return [block < choice.checkpointed for block in range(first, min(first + choice.blocks_per_unit, hole.blocks))]


def _seconds_of_action(hole: Hole, choice: StepChoice, action: UnitAction) -> float:
    forward = 2 * hole.tokens / choice.microbatches * hole.block_length / hole.speed
    again = _checkpointed_in(hole, choice, action.unit)
    if action.kind == FORWARD:
        return len(again) * (forward + hole.overhead)
    return len(again) * (2 * forward + hole.overhead) + sum(again) * (forward + hole.overhead)


@lru_cache(maxsize=4096)
def seconds_of(hole: Hole, choice: StepChoice) -> float:
    """Virtual seconds of a step. Played once, they are known."""
    lengths = [blocks * hole.block_length for blocks in unit_sizes(hole, choice)]
    world = SimulatedWorld(hole.ranks, Cluster.flat(hole.ranks, hole.link))
    return max(
        world.run(
            play_step,
            whole_plan(hole, choice),
            lengths,
            reduce_dtype=torch.bfloat16,
            seconds=lambda action: _seconds_of_action(hole, choice, action),
        )
    )


# ── what is alive ────────────────────────────────────────────────────────────────────────────────────────────────────


def account_of_step(hole: Hole, choice: StepChoice) -> list[Sample]:
    """What a rank has alive after each change in a step; all ranks have the same."""
    alive = _alive_before(hole, choice)
    phase, samples, seen = "forward", [Sample("forward", 0.0, dict(alive))], set()
    for action in whole_plan(hole, choice):
        phase = {FORWARD: "forward", BACKWARD: "backward"}.get(action.kind, phase)
        for kind, change in _changes(hole, choice, action, first=action not in seen):
            alive[kind] += change
            samples.append(Sample(phase, 0.0, dict(alive)))
        seen.add(action)
    return samples


def _alive_before(hole: Hole, choice: StepChoice) -> dict[str, int]:
    total = hole.blocks * hole.block_length
    alive = dict.fromkeys(KINDS, 0)
    alive[PARAMETERS] = 2 * total // (hole.ranks if choice.stage == 3 else 1)
    alive[STATES] = 12 * total // (hole.ranks if choice.stage >= 1 else 1)
    return alive


def _changes(hole: Hole, choice: StepChoice, action: UnitAction, first: bool) -> Iterator[tuple[str, int]]:
    """The kinds and bytes that an action changes, in order; `first`: it is the first of its kind in the step."""
    again = _checkpointed_in(hole, choice, action.unit)
    nbytes = 2 * len(again) * hole.block_length
    tokens = hole.tokens // choice.microbatches
    kept, inside = 2 * tokens * hole.features, hole.block_activations * tokens * hole.features
    match action.kind:
        case "F":
            yield from ((ACTIVATIONS, kept if checkpointed else inside) for checkpointed in again)
        case "B":
            if choice.stage >= 2:
                yield BUFFERS, nbytes
            elif first:
                yield GRADIENTS, nbytes
            for checkpointed in reversed(again):
                yield from [(ACTIVATIONS, inside - kept)] if checkpointed else []
                yield ACTIVATIONS, -inside
        case "A" if choice.stage >= 2:
            yield BUFFERS, -nbytes
            yield from [(GRADIENTS, nbytes // hole.ranks)] if first else []
        case "G" | "X" if choice.stage == 3:
            yield PARAMETERS, nbytes if action.kind == GATHER else -nbytes


# ── the holes ────────────────────────────────────────────────────────────────────────────────────────────────────────

_FAST, _USUAL, _SLOW, _FAR = Link(5e-6, 100e9), Link(10e-6, 25e9), Link(20e-6, 3e9), Link(400e-6, 25e9)

HOLES = (
    Hole(1, "short steps", 24, 2048, 4096, 4, 7.4e9, _FAST, StepChoice(3, 1, 12, 2)),
    Hole(2, "long documents", 16, 2048, 32_768, 4, 5.3e9, _USUAL, StepChoice(3, 1, 16, 4)),
    Hole(3, "a thin wire", 24, 2048, 131_072, 4, 9.1e9, _SLOW, StepChoice(1, 2, 24, 64)),
    Hole(4, "far apart", 32, 4096, 8192, 4, 38e9, _FAR, StepChoice(3, 1, 24)),
    Hole(5, "all at once", 40, 6144, 8192, 8, 47e9, _USUAL, StepChoice(3, 1, 40)),
)
"""The holes, which get harder."""


def score_card(swings: Sequence[Swing]) -> str:
    """The best swing at each hole, and the sum, as text."""
    lines, total = ["hole               peak      time   points"], 0
    for hole in HOLES:
        best = max((each for each in swings if each.hole == hole), key=lambda each: each.points, default=None)
        name = f"{hole.number} {hole.name}"
        if best is None:
            lines.append(f"{name:16}      -")
            continue
        lines.append(f"{name:16} {best.peak.total / 1e9:5.1f} GB {best.seconds * 1e3:6.0f} ms {best.points:8}")
        total += best.points
    return "\n".join([*lines, sum_in_words(total, len(HOLES))])
