"""Cases for training by torch on dp × tp: what each rank is given, and what one process makes of all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.plays.block_models import BlockModel, block_model
from distlib.checks.rules.block_training import (
    Gradients,
    by_unit,
    clipped,
    norm_of,
    padded_rows,
    rows_of_rank,
    sum_of_gradients,
    take_step,
)
from distlib.checks.task import Draw
from distlib.exercises.hybrid.two_axes_plays import train_on_two_axes

SPREAD = 0.3
CUT_DIMENSION = {"up.weight": 0, "up.bias": 0, "down.weight": 1}  # along tp
ON_BOTH = (*CUT_DIMENSION, "down.bias")  # what the plan of tp names
Clip = Callable[[Gradients, float], Gradients]


@dataclass(frozen=True)
class TwoAxes:
    """Training on a mesh.

    Attributes:
        dp, tp: the sizes of its axes.
        widths: inputs, width, hidden, outputs of the model. tp divides hidden.
        blocks: how many it has.
        steps: of the optimizer.
        rows: of the batch of a replica.
        relative_norm: about how many times the norm of the first step `max_norm` is.
    """

    dp: int
    tp: int
    widths: tuple[int, int, int, int]
    blocks: int
    steps: int = 2
    rows: int = 3
    relative_norm: float = 0.6

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.dp * self.tp

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        parts = [f"on {count(self.ranks, 'rank')}, dp {self.dp}, tp {self.tp}"]
        parts += [count(self.blocks, "block"), count(self.steps, "step")]
        return ", ".join([*parts, *["not clipped"] * (self.relative_norm > 1)])

    def model(self) -> BlockModel:
        """One of shapes alone."""
        with torch.device("meta"):
            return BlockModel(self.widths, self.blocks).double()

    def part(self, name: str, whole: torch.Tensor, rank: int) -> torch.Tensor:
        """What a rank has of a parameter: its part along tp, and of that its rows along dp."""
        return rows_of_rank(self.part_of_tp(name, whole, rank % self.tp), self.dp, rank // self.tp)

    def part_of_tp(self, name: str, whole: torch.Tensor, coordinate: int) -> torch.Tensor:
        """Its part along tp alone."""
        dimension = CUT_DIMENSION.get(last_two(name))
        return whole if dimension is None else whole.chunk(self.tp, dimension)[coordinate]

    def unit_bytes(self) -> dict[str, int]:
        """The bytes of a rank's shard of each unit along dp, by the unit's name."""
        parameters = self.model().named_parameters()
        return by_unit((name, padded_rows(self.part_of_tp(name, each, 0), self.dp)) for name, each in parameters)


def last_two(name: str) -> str:
    """The last two words of a parameter's name: "up.weight" of "blocks.0.up.weight"."""
    return ".".join(name.split(".")[-2:])


def two_axes_case(draw: Draw, plan: TwoAxes) -> Case:
    """The case of a plan; its facts are the plan."""
    shapes = {name: each.shape for name, each in plan.model().named_parameters()}
    state = {name: SPREAD * draw.normal(shape) for name, shape in shapes.items()}
    given = {"widths": plan.widths, "state": state, "dp": plan.dp, "tp": plan.tp, "rate": draw.rate(0.05, 0.2)}
    widths = plan.widths[0], plan.widths[-1]
    batches = [
        [tuple(draw.normal((plan.rows, width)) for width in widths) for _ in range(plan.steps)] for _ in range(plan.dp)
    ]
    inputs = [{**given, "steps": batches[rank // plan.tp], "max_norm": math.inf} for rank in range(plan.ranks)]
    norm = MeshAsOne(Case(plan.title, train_on_two_axes, inputs, plan)).norms[0]
    limit = norm * plan.relative_norm * draw.uniform(0.9, 1.1)
    return Case(plan.title, train_on_two_axes, [{**each, "max_norm": limit} for each in inputs], plan)


class MeshAsOne:
    """What a single process makes of a case; and what it makes of it with a mistake.

    Args:
        clip: how gradients are clipped.
        scale: of all gradients.
        clears: whether gradients are cleared before each step.
        moves: whether the optimizer changes the parameters.

    Attributes:
        gradients: of each step, before they are clipped.
        norms: of these.
        state: the parameters at the end, by name.
    """

    def __init__(
        self, case: Case, *, clip: Clip = clipped, scale: float = 1.0, clears: bool = True, moves: bool = True
    ) -> None:
        plan: TwoAxes = case.facts
        replicas: Sequence[Mapping[str, Any]] = case.inputs[:: plan.tp]
        model = block_model(plan.widths, replicas[0]["state"])
        self.gradients: list[Gradients] = []
        before: Gradients = {}
        for step in range(plan.steps):
            fresh = sum_of_gradients(model, [each["steps"][step] for each in replicas], scale / plan.dp)
            self.gradients.append({name: each + before.get(name, 0) for name, each in fresh.items()})
            used = clip(self.gradients[-1], replicas[0]["max_norm"])
            take_step(model, used, replicas[0]["rate"] * moves)
            before = {} if clears else used
        self.norms = [norm_of(each.values()) for each in self.gradients]
        self.state = {name: each.detach() for name, each in model.named_parameters()}


def groups_of(gradients: Gradients) -> tuple[Gradients, Gradients]:
    """Those of parameters on both axes, and those of parameters on dp alone."""
    both = {name: each for name, each in gradients.items() if last_two(name) in ON_BOTH}
    return both, {name: each for name, each in gradients.items() if name not in both}
