"""Cases for models that are cut unit by unit: what each rank is given, and what one process makes of all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name, listed
from distlib.checks.task import Draw
from distlib.exercises.zero.cases import FREE_SHARDS, ODD_BYTES, FlatShards
from distlib.exercises.zero.unit_plays import UnitModel, shard

RATE, SPREAD, OUTPUTS_ALIVE = 0.2, 0.4, 3  # of learning; of parameters; more outputs than units, at any moment


@dataclass(frozen=True)
class Sharding:
    """Training of a model that is cut.

    Attributes:
        ranks: how many there are.
        widths: of the first unit's inputs, and of each unit's outputs.
        layers: linear layers of each unit, or of all.
        biases: whether they have some.
        steps: of the optimizer.
        passes: forward and backward passes in each step.
        evaluates: whether a forward pass without gradients comes after each step.
        next_to: whether there is a second model; both make their steps in turn.
        inputs: tensors that the model takes.
        tensors: how many each unit takes.
        samples: the dimensions of each of them before its features.
        dtype: of everything.
    """

    ranks: int
    widths: Sequence[int]
    layers: int | Sequence[int] = 1
    biases: bool = True
    steps: int = 2
    passes: int = 1
    evaluates: bool = False
    next_to: bool = False
    inputs: int = 1
    tensors: int = 1
    samples: Sequence[int] = (1,)
    dtype: torch.dtype = torch.float64

    @property
    def number(self) -> int:
        """How many models there are."""
        return 2 if self.next_to else 1

    @property
    def units(self) -> list[FlatShards]:
        """Each unit's parameters, as they are registered: what computes first comes last."""
        each = zip(pairwise(self.widths), self._layers, strict=True)
        return [FlatShards(self.ranks, self._shapes(*pair, layers), self.dtype) for pair, layers in each]

    @property
    def _layers(self) -> Sequence[int]:
        """How many linear layers each unit has."""
        return [self.layers] * (len(self.widths) - 1) if isinstance(self.layers, int) else self.layers

    def _shapes(self, inputs: int, outputs: int, layers: int) -> list[tuple[int, ...]]:
        bias: list[tuple[int, ...]] = [(outputs,)] * self.biases
        return [(outputs, outputs), *bias] * (layers - 1) + [(outputs, inputs), *bias]

    @property
    def shards(self) -> int:
        """The bytes of a shard of each unit, together."""
        return sum(unit.shard_bytes for unit in self.units)

    @property
    def largest_shard(self) -> int:
        """The bytes of the shard of the largest unit."""
        return max(unit.shard_bytes for unit in self.units)

    @property
    def odd_bytes(self) -> int:
        """The bytes of activations that are alive during a pass, at most."""
        outputs = sum(self.widths) * max(self._layers) + OUTPUTS_ALIVE * max(self.widths)
        outputs += 2 * (self.inputs - 1) * self.widths[0]
        outputs += (self.tensors - 1) * (sum(self.widths) + 2 * max(self.widths))
        return math.prod(self.samples) * outputs * self.dtype.itemsize + ODD_BYTES

    def most_with(self, unit: int) -> int:
        """The bytes that may be alive, besides shards and their gradients, while a unit computes."""
        return (self.ranks + 1) * self.units[unit].shard_bytes + self.odd_bytes

    @property
    def most_between(self) -> int:
        """The bytes that may be alive, besides shards and their gradients, between two passes."""
        return self.largest_shard + ODD_BYTES

    @property
    def most_at_all(self) -> int:
        """The same at any moment: a unit, its gradients, three buffers with these, and shards that are under way."""
        return (5 * self.ranks + FREE_SHARDS) * self.largest_shard + self.odd_bytes

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        lengths = ", ".join(str(unit.length) for unit in self.units)
        parts = [f"on {count(self.ranks, 'rank')}, units of {lengths} numbers"]
        parts += [dtype_name(self.dtype)] * (self.dtype != torch.float64)
        parts += [f"{self.passes} backward passes in each step"] * (self.passes > 1)
        shape = [*self.samples, self.widths[0]]
        parts += [f"{self.inputs} inputs of shape {shape}"] * (self.inputs > 1)
        parts += ["without biases"] * (not self.biases)
        parts += [f"of {listed(self._layers)} layers"] * (len({*self._layers}) > 1)
        parts += [f"each of {self.tensors} tensors"] * (self.tensors > 1)
        parts += ["with evaluation"] * self.evaluates + ["two models in turn"] * self.next_to
        return ", ".join([*parts, count(self.steps, "step")])


def sharding_case(draw: Draw, plan: Sharding) -> Case:
    """The case of a plan; its facts are the plan."""
    inputs: list[dict[str, Any]] = [{"sets": []} for _ in range(plan.ranks)]
    units = plan.units
    for _ in range(plan.number):
        start = [unit.pieces(SPREAD * unit.drawn(draw)) for unit in units]
        for given in inputs:
            own = {
                "parameters": [[each.clone() for each in pieces] for pieces in start],
                "tensors": plan.tensors,
                "shard_bytes": [unit.shard_bytes for unit in units],
                "rate": RATE,
                "most_with": [plan.most_with(number) for number in range(len(units))],
                "most_between": plan.most_between,
                "steps": [_drawn_step(draw, plan) for _ in range(plan.steps)],
            }
            given["sets"].append(own)
    return Case(plan.title, shard, inputs, plan)


def _drawn_step(draw: Draw, plan: Sharding) -> dict[str, Any]:
    def row(width: int) -> torch.Tensor:
        return draw.normal((*plan.samples, width)).to(plan.dtype)

    def rows() -> list[torch.Tensor]:
        return [row(plan.widths[0]) for _ in range(plan.inputs)]

    passes = [{"xs": rows(), "y": row(plan.widths[-1])} for _ in range(plan.passes)]
    return {"passes": passes, "evaluation": rows() if plan.evaluates else None}


Flat = list[torch.Tensor]  # by unit, all its parameters or their gradients: [length]


class WholeModel:
    """What a single process makes of a case.

    Args:
        number: which of the models.

    Attributes:
        flat: the parameters at the beginning and after each step.
        gradients: by step, pass and rank.
        average: by step, over the ranks; the passes are added up.
    """

    def __init__(self, case: Case, number: int = 0) -> None:
        self.plan: Sharding = case.facts
        self._sets = [given["sets"][number] for given in case.inputs]
        self._model = UnitModel(self._sets[0]["parameters"], tensors=self.plan.tensors)
        self.flat: list[Flat] = [self._now(lambda parameter: parameter.detach())]
        self.gradients: list[list[list[Flat]]] = []
        self.average: list[Flat] = []
        for step in range(self.plan.steps):
            self._step(step)

    def _step(self, step: int) -> None:
        passes = range(self.plan.passes)
        ranks = range(self.plan.ranks)
        self.gradients.append([[self._gradient(step, number, rank) for rank in ranks] for number in passes])
        every = [own for one in self.gradients[-1] for own in one]
        self.average.append([sum(each) / self.plan.ranks for each in zip(*every, strict=True)])
        moved = zip(self.flat[-1], self.average[-1], strict=True)
        self.flat.append([each - self._sets[0]["rate"] * gradient for each, gradient in moved])

    def _gradient(self, step: int, number: int, rank: int) -> Flat:
        batch = self._sets[rank]["steps"][step]["passes"][number]
        self._load(self.flat[step])
        self._model.zero_grad()
        torch.nn.functional.mse_loss(self._model(*batch["xs"]), batch["y"]).backward()
        return self._now(_gradient_of)

    def _now(self, of: Callable[[torch.Tensor], torch.Tensor]) -> Flat:
        return [torch.cat([of(p).reshape(-1).clone() for p in unit.parameters()]) for unit in self._model.units]

    def _load(self, flat: Flat) -> None:
        for unit, cut, values in zip(self._model.units, self.plan.units, flat, strict=True):
            for parameter, piece in zip(unit.parameters(), cut.pieces(values), strict=True):
                parameter.data.copy_(piece)

    def outputs(self, step: int, number: int | None, rank: int, flat: Flat | None = None) -> torch.Tensor:
        """What comes out of a forward pass.

        Args:
            number: of the pass in its step; None: the evaluation after it.
            flat: of the parameters; by default those that are right.
        """
        given = self._sets[rank]["steps"][step]
        xs = given["evaluation"] if number is None else given["passes"][number]["xs"]
        self._load(flat or self.flat[step + (number is None)])
        with torch.no_grad():
            made: torch.Tensor = self._model(*xs)
        return made


def _gradient_of(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad
