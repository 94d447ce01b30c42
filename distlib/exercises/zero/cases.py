"""Cases for optimizers and gradients that are cut: what each rank is given, and what one process makes of all of it.

flat        w w w w w w  b b b  0 0 0        tensors in one buffer, padded until the ranks divide it
shards      └─ 0 ─┘└─ 1 ─┘└─ 2 ─┘└─ 3 ─┘     3 numbers each
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.task import Draw
from distlib.exercises.zero.plays import TwoStates, clip, optimize

STATES, FREE_SHARDS = 2, 3  # of an optimizer for each number; and the tensors as long as a shard that it may have
ODD_BYTES = 32  # of numbers that are no part of a flat buffer, such as a norm


@dataclass(frozen=True)
class FlatShards:
    """Tensors in a flat buffer that is cut into a shard for each rank.

    Attributes:
        ranks: how many there are.
        shapes: of the tensors.
        dtype: of them.
    """

    ranks: int
    shapes: Sequence[tuple[int, ...]]
    dtype: torch.dtype = torch.float64

    @property
    def lengths(self) -> list[int]:
        """How many elements each tensor has."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def length(self) -> int:
        """Of all of them together, without the padding."""
        return sum(self.lengths)

    @property
    def shard(self) -> int:
        """The length of a shard."""
        return -(-self.length // self.ranks)

    @property
    def shard_bytes(self) -> int:
        """The bytes of a shard."""
        return self.shard * self.dtype.itemsize

    def shards(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """By rank, its shard of numbers [length], with the padding."""
        padding = flat.new_zeros(self.shard * self.ranks - len(flat))
        return list(torch.cat([flat, padding]).split(self.shard))

    def pieces(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The tensors in a flat buffer."""
        parts = flat[: self.length].split(self.lengths)
        return [part.reshape(shape).clone() for part, shape in zip(parts, self.shapes, strict=True)]

    def drawn(self, draw: Draw) -> torch.Tensor:
        """Numbers for a flat buffer, without padding: [length]."""
        return draw.normal((self.length,)).to(self.dtype)

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        dtype = "" if self.dtype == torch.float64 else f", {dtype_name(self.dtype)}"
        return f"on {count(self.ranks, 'rank')}, {_listed(self.shapes)}: {count(self.length, 'number')}{dtype}"


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return f"parameters of shape {', '.join(str(list(shape)) for shape in shapes)}"


# ── ShardedOptimizer ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Optimizing(FlatShards):
    """Steps of an optimizer. `next_to`: whether there is a second one, of other parameters; both step in turn."""

    steps: int = 3
    next_to: bool = False

    @property
    def number(self) -> int:
        """How many optimizers there are."""
        return 2 if self.next_to else 1

    @property
    def most_alive(self) -> int:
        """The bytes that may be alive between steps: parameters, states, and a few tensors as long as a shard."""
        return self.number * (self.ranks + STATES + FREE_SHARDS) * self.shard_bytes + ODD_BYTES

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        return f"{super().title}, {count(self.steps, 'step')}{', two optimizers in turn' * self.next_to}"


def optimizing_case(draw: Draw, plan: Optimizing) -> Case:
    """The case of a plan; its facts are the plan."""
    inputs: list[dict[str, Any]] = [{"sets": [], "most": plan.most_alive} for _ in range(plan.ranks)]
    for _ in range(plan.number):
        start, gradients = plan.drawn(draw), [plan.drawn(draw) for _ in range(plan.steps)]
        shards = [plan.shards(each) for each in gradients]
        for rank, given in enumerate(inputs):
            own = {"parameters": plan.pieces(start), "gradients": [each[rank].clone() for each in shards]}
            given["sets"].append(own)
    return Case(plan.title, optimize, inputs, plan)


class WholeOptimizer:
    """What a single process makes of a case.

    Args:
        number: which of the optimizers.
        fresh: whether its states are lost after each step, which is a mistake.
        adds: whether it adds each gradient to those of earlier steps, which is one, too.
        start: whose parameters it begins with; by default its own. Those of another one are a mistake, too.

    Attributes:
        flat: the numbers [length] before the first step and after each one.
    """

    def __init__(
        self, case: Case, number: int = 0, fresh: bool = False, adds: bool = False, start: int | None = None
    ) -> None:
        self.plan: Optimizing = case.facts
        sets = [given["sets"][number] for given in case.inputs]
        begins = case.inputs[0]["sets"][number if start is None else start]["parameters"]
        self.flat = [torch.cat([each.reshape(-1) for each in begins])]
        now = self.flat[0].clone()
        optimizer = TwoStates([now])
        for step in range(self.plan.steps):
            gradient = torch.cat([each["gradients"][step] for each in sets])[: self.plan.length]
            now.grad = now.grad + gradient if adds and now.grad is not None else gradient
            optimizer.step()
            self.flat.append(now.clone())
            optimizer = TwoStates([now]) if fresh else optimizer

    def seen_by(self, rank: int, step: int) -> torch.Tensor:
        """What a rank would have after a step if nobody sent anything: only its own shard is new."""
        before, after = self.plan.shards(self.flat[0]), self.plan.shards(self.flat[step + 1])
        return torch.cat([*before[:rank], after[rank], *before[rank + 1 :]])[: self.plan.length]

    def only(self, rank: int, step: int) -> torch.Tensor:
        """Its own shard after a step, with zeros in the shards of the others."""
        after = self.plan.shards(self.flat[step + 1])
        return torch.cat([each * (k == rank) for k, each in enumerate(after)])[: self.plan.length]


# ── shard_gradients ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Clipping(FlatShards):
    """Gradients that are averaged, cut and clipped.

    Attributes:
        relative_norm: about how many times the norm `max_norm` is. Below 1 the gradients are clipped.
        norm: of the average; by default what is drawn. A small one shows the 1e-6.
        calls: how many, with other gradients each time.
    """

    relative_norm: float = 10.0
    norm: float | None = None
    calls: int = 1

    @property
    def most_alive(self) -> int:
        """The bytes that may be alive after a call, without the parameters' own."""
        return self.shard_bytes + ODD_BYTES

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        clipped = "clipped" if self.relative_norm < 1 else "not clipped"
        norm = f", the norm is {self.norm:g}" if self.norm else ""
        return f"{super().title}, {clipped}{norm}{f', {self.calls} calls' * (self.calls > 1)}"


def clipping_case(draw: Draw, plan: Clipping) -> Case:
    """The case of a plan; its facts are the plan."""
    flat = [_drawn_gradients(draw, plan) for _ in range(plan.calls)]
    start = plan.drawn(draw)
    norms = [float(torch.stack(each).mean(0).norm()) for each in flat]
    limits = [norm * plan.relative_norm * draw.uniform(0.95, 1.05) for norm in norms]
    inputs = [
        {
            "parameters": plan.pieces(start),
            "gradients": [plan.pieces(each[rank]) for each in flat],
            "max_norm": list(limits),
            "most": plan.most_alive,
        }
        for rank in range(plan.ranks)
    ]
    return Case(plan.title, clip, inputs, plan)


def _drawn_gradients(draw: Draw, plan: Clipping) -> list[torch.Tensor]:
    """By rank, flat; their average has the norm of the plan."""
    drawn = [plan.drawn(draw) for _ in range(plan.ranks)]
    scale = plan.norm / float(torch.stack(drawn).mean(0).norm()) if plan.norm else 1.0
    return [each * scale for each in drawn]


class WholeGradient:
    """What a single process with all gradients makes of a call.

    Attributes:
        own: by rank, its gradients: [length].
        average: of the ranks: [length].
        max_norm: as given.
    """

    def __init__(self, case: Case, call: int) -> None:
        self.plan: Clipping = case.facts
        self.own = [torch.cat([each.reshape(-1) for each in given["gradients"][call]]) for given in case.inputs]
        self.average = torch.stack(self.own).mean(0)
        self.max_norm: float = case.inputs[0]["max_norm"][call]

    @property
    def norm(self) -> float:
        """Of the average, before clipping."""
        return float(self.average.double().norm())

    def factor(self, norm: float) -> float:
        """What gradients of this norm are multiplied by."""
        return self.max_norm / (norm + 1e-6) if norm > self.max_norm else 1.0

    def shards(self, factor: float | None = None) -> list[torch.Tensor]:
        """By rank, its shard of the average times the factor; by default the right one."""
        return self.plan.shards(self.average * (self.factor(self.norm) if factor is None else factor))

    def shard_norms(self) -> Iterator[float]:
        """By rank, the norm of its shard of the average alone."""
        return (float(each.double().norm()) for each in self.plan.shards(self.average))
