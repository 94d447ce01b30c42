"""Cases for training by torch's fully_shard: what each rank is given, and what one process makes of all of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name, listed
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
from distlib.exercises.zero.fsdp_plays import train

SPREAD = 0.3
Used = Literal["all", "first", "last"]
Clips = Literal["by the norm", "by the norm of each rank", "never"]


@dataclass(frozen=True)
class Wrapping:
    """Training of a model whose blocks are units.

    Attributes:
        ranks: how many there are.
        widths: inputs, width, hidden, outputs of the model.
        blocks: how many it has.
        passes: by step, the microbatches of each rank.
        rows: of a microbatch.
        relative_norm: about how many times the norm of the first step `max_norm` is.
        frozen: layers that are not trained.
        dtype: of everything.
    """

    ranks: int
    widths: tuple[int, int, int, int]
    blocks: int
    passes: Sequence[int]
    rows: int = 2
    relative_norm: float = 0.6
    frozen: Sequence[str] = ()
    dtype: torch.dtype = torch.float64

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        parts = [f"on {count(self.ranks, 'rank')}, {count(self.blocks, 'block')}"]
        parts += [f"microbatches by step: {listed(self.passes)}"]
        parts += ["not clipped"] * (self.relative_norm > 1) + [f"{name} is frozen" for name in self.frozen]
        return ", ".join([*parts, *[dtype_name(self.dtype)] * (self.dtype != torch.float64)])

    def model(self) -> BlockModel:
        """One of shapes alone."""
        with torch.device("meta"):
            return BlockModel(self.widths, self.blocks).to(self.dtype)

    def unit_bytes(self, trained: bool = False) -> dict[str, int]:
        """The bytes of a rank's shard of each unit, by the unit's name, with the padding: a row of zeros, if need be.

        Args:
            trained: count only what is.
        """
        parameters = self.model().named_parameters()
        left_out = self.frozen if trained else ()
        return by_unit(
            (name, 0 if is_in(name, left_out) else padded_rows(each, self.ranks)) for name, each in parameters
        )


def is_in(name: str, layers: Sequence[str]) -> bool:
    """Whether the parameter of this name is one of some layers."""
    return name.rpartition(".")[0] in layers


def wrapping_case(draw: Draw, plan: Wrapping) -> Case:
    """The case of a plan; its facts are the plan."""
    shapes = {name: each.shape for name, each in plan.model().named_parameters()}
    state = {name: (SPREAD * draw.normal(shape)).to(plan.dtype) for name, shape in shapes.items()}
    given = {"widths": plan.widths, "state": state, "frozen": list(plan.frozen), "rate": draw.rate(0.05, 0.2)}
    inputs = [{**given, "steps": _drawn_steps(draw, plan), "max_norm": math.inf} for _ in range(plan.ranks)]
    norm = TrainingAsOne(Case(plan.title, train, inputs, plan)).norms[0]
    limit = norm * plan.relative_norm * draw.uniform(0.9, 1.1)
    return Case(plan.title, train, [{**each, "max_norm": limit} for each in inputs], plan)


def _drawn_steps(draw: Draw, plan: Wrapping) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    def rows(width: int) -> torch.Tensor:
        return draw.normal((plan.rows, width)).to(plan.dtype)

    return [[(rows(plan.widths[0]), rows(plan.widths[-1])) for _ in range(number)] for number in plan.passes]


class TrainingAsOne:
    """What a single process makes of a case; and what it makes of it with a mistake.

    Args:
        divides: whether the loss of a microbatch is divided by their number.
        used: which microbatches of a step count.
        clips: by which norm.
        clears: whether gradients are cleared before each step.
        thaws: whether frozen layers are trained, too.
        moves: whether the optimizer changes the parameters.
        scale: of all gradients.
        seen_by: a rank: `norms` are those of its rows alone.

    Attributes:
        norms: of the gradients of each step, before they are clipped.
        state: the parameters at the end, by name.
    """

    def __init__(
        self,
        case: Case,
        *,
        divides: bool = True,
        used: Used = "all",
        clips: Clips = "by the norm",
        clears: bool = True,
        thaws: bool = False,
        moves: bool = True,
        scale: float = 1.0,
        seen_by: int | None = None,
    ) -> None:
        self._plan: Wrapping = case.facts
        self._inputs: Sequence[Mapping[str, Any]] = case.inputs
        self._used, self._clips, self._seen_by = used, clips, seen_by
        self._rate = self._inputs[0]["rate"] * moves
        self._frozen = () if thaws else self._plan.frozen
        self._model = block_model(self._plan.widths, self._inputs[0]["state"])
        self.norms: list[float] = []
        gradients: Gradients = {}
        for step, number in enumerate(self._plan.passes):
            factor = scale / (number if divides else 1) / self._plan.ranks
            fresh = self._gradients(step, factor)
            gradients = fresh if clears or not gradients else {n: gradients[n] + each for n, each in fresh.items()}
            gradients = self._step(gradients)
        self.state = {name: each.detach() for name, each in self._model.named_parameters()}

    def _gradients(self, step: int, factor: float) -> Gradients:
        """The sum over ranks and microbatches, times a factor."""
        which = {"all": slice(None), "first": slice(1), "last": slice(-1, None)}[self._used]
        batches = [batch for given in self._inputs for batch in given["steps"][step][which]]
        every = sum_of_gradients(self._model, batches, factor)
        return {name: each for name, each in every.items() if not is_in(name, self._frozen)}

    def _step(self, gradients: Gradients) -> Gradients:
        """Note the norm, clip, step; the gradients that were used."""
        own = gradients if self._seen_by is None else rows_of(gradients, self._plan.ranks, self._seen_by)
        self.norms.append(norm_of(own.values()))
        if self._clips == "by the norm":
            gradients = self._clipped(gradients)
        elif self._clips == "by the norm of each rank":
            parts = [self._clipped(rows_of(gradients, self._plan.ranks, rank)) for rank in range(self._plan.ranks)]
            gradients = {name: torch.cat([part[name] for part in parts if name in part]) for name in gradients}
        take_step(self._model, gradients, self._rate)
        return gradients

    def _clipped(self, gradients: Gradients) -> Gradients:
        return clipped(gradients, self._inputs[0]["max_norm"])


def rows_of(tensors: Gradients, ranks: int, rank: int) -> Gradients:
    """What `fully_shard` gives to a rank."""
    return {name: rows_of_rank(each, ranks, rank) for name, each in tensors.items()}
