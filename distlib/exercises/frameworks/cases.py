"""Trainings of both frameworks, and what a single process makes of them: the right one, and those of usual mistakes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.frameworks.port_plays import GatedNetwork

DRAWN, CLEAR = 20, 1.3  # trainings to choose from, and the factor between norms that is enough

Indices = list[int]
Order = list[list[list[Indices]]]  # by epoch, by rank: the samples of each batch


@dataclass(frozen=True)
class TrainingPlan:
    """A training to play on every rank.

    Attributes:
        ranks: how many.
        batches: of each rank in an epoch.
        batch_size: samples of a batch.
        accumulate: batches of a step.
        epochs: how many.
        layers: of the model, 2 or 3.
    """

    ranks: int
    batches: int
    batch_size: int
    accumulate: int
    epochs: int = 2
    layers: int = 2

    @property
    def samples(self) -> int:
        """Of the data set. They can be shared without a rest."""
        return self.ranks * self.batches * self.batch_size

    @property
    def steps(self) -> int:
        """How many an epoch has."""
        return -(-self.batches // self.accumulate)

    @property
    def title(self) -> str:
        """ "on 2 ranks, 3 epochs of 5 batches, steps of 2"."""
        epochs = f"{count(self.epochs, 'epoch')} of {count(self.batches, 'batch')}"
        return f"on {count(self.ranks, 'rank')}, {epochs}, steps of {self.accumulate}"


def training_inputs(draw: Draw, training: TrainingPlan) -> list[dict[str, Any]]:
    """By rank. Only the data are the same on all ranks."""
    taken = (training.ranks, training.batch_size)
    features, hidden = draw.sample([number for number in range(2, 7) if number not in taken], 2)
    shapes = {"first.weight": (hidden, features), "first.bias": (hidden,)}
    if training.layers == 3:
        shapes |= {"middle.weight": (hidden, hidden), "middle.bias": (hidden,)}
    shapes |= {"second.weight": (1, hidden), "second.bias": (1,)}
    rate = draw.uniform(0.2, 0.4)
    x, y = draw.normal((training.samples, features)), draw.normal((training.samples, 1)) + 1
    return [
        {
            "parameters": {name: draw.normal(shape) for name, shape in shapes.items()},
            "x": x,
            "y": y,
            "batch_size": training.batch_size,
            "seed": draw.randrange(10**6),
            "rate": rate,
            "epochs": training.epochs,
            "accumulate": training.accumulate,
            "max_norm": 0.0,  # to be found
        }
        for _ in range(training.ranks)
    ]


def training_case(
    draw: Draw, training: TrainingPlan, play: Callable[..., Any], order: Callable[[Sequence[dict[str, Any]]], Order]
) -> Case:
    """The case: of some that are drawn the first whose `max_norm` tells clipped steps from others, or the clearest."""
    clearest, best = 0.0, None
    for _ in range(DRAWN):
        inputs, seed = training_inputs(draw, training), draw.randrange(10**6)
        case = _with_norm(Case(training.title, play, inputs, training, seed=seed), order)
        clear = _clearness(case, order)
        if best is None or clear > clearest:
            clearest, best = clear, case
        if clear >= CLEAR:
            break
    assert best is not None
    return best


def _with_norm(case: Case, order: Callable[[Sequence[dict[str, Any]]], Order]) -> Case:
    """With a `max_norm` between the smallest norm, and the largest of a step with fewer batches, if there is one."""
    norms = train(case, order(case.inputs), TrainingWay(clips="never")).norms
    middle = (max(_of_rests(norms, case.facts)) * min(norms)) ** 0.5
    return replace(case, inputs=[{**own, "max_norm": middle} for own in case.inputs])


def _clearness(case: Case, order: Callable[[Sequence[dict[str, Any]]], Order]) -> float:
    """By which factor a step with fewer batches, if there is one, is clipped, and by which another one might grow."""
    norms, most = train(case, order(case.inputs)).norms, case.inputs[0]["max_norm"]
    return min(max(_of_rests(norms, case.facts)) / most, most / min(norms))


def _of_rests(norms: Sequence[float], training: TrainingPlan) -> Sequence[float]:
    """Those of the last steps of epochs, if these have fewer batches; else all."""
    return norms[training.steps - 1 :: training.steps] if training.batches % training.accumulate else norms


def strided_order(inputs: Sequence[dict[str, Any]], passes: Sequence[int] | None = None) -> Order:
    """Fabric's: a rank takes every so manieth sample. `passes`: of each epoch, which one through the loader it is."""
    samples, size = len(inputs[0]["x"]), inputs[0]["batch_size"]
    passes = range(inputs[0]["epochs"]) if passes is None else passes
    orders = [torch.randperm(samples, generator=torch.Generator().manual_seed(number)).tolist() for number in passes]
    return [[_cut(order[rank :: len(inputs)], size) for rank in range(len(inputs))] for order in orders]


def batched_order(inputs: Sequence[dict[str, Any]], passes: Sequence[int] | None = None) -> Order:
    """Accelerate's: a rank takes every so manieth batch of an order that rank 0's generator draws. `passes`: same."""
    generator = torch.Generator().manual_seed(inputs[0]["seed"])
    passes = range(inputs[0]["epochs"]) if passes is None else passes
    samples, size = range(len(inputs[0]["x"])), inputs[0]["batch_size"]
    loader: Any = DataLoader(samples, size, shuffle=True, generator=generator)  # type: ignore[arg-type]
    every = [[batch.tolist() for batch in loader] for _ in range(max(passes) + 1)]
    return [[every[number][rank :: len(inputs)] for rank in range(len(inputs))] for number in passes]


def _cut(indices: Indices, size: int) -> list[Indices]:
    return [indices[first : first + size] for first in range(0, len(indices), size)]


# ── a single process ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TrainingWay:
    """How to train. The defaults are right.

    Attributes:
        scale: what a loss is multiplied with, besides 1 / accumulate.
        divides_rest: whether batches that are left at the end of an epoch are divided by their own number.
        max_norm: to which gradients are clipped; None: as in the case.
        clips: before each step, the mean over the ranks ("synced"); that, but only in steps that have all their
            batches ("whole"); that, each number by itself ("value"); also after every batch, what this rank has
            ("each"); only before gradients are averaged ("own"); "never".
        steps: after so many batches, and after the last one ("all"); not after those that are left ("whole"); after
            "each" batch.
        averages: gradients before each "step", which are then clipped, too; both only before a step that is due
            ("group"); or "never" (but clips).
        shares_start: whether all ranks begin with rank 0's parameters.
        zeroes: gradients after each "step"; where one is due, whether it is made or not ("group"); after each "batch";
            or "never".
    """

    scale: float = 1
    divides_rest: bool = False
    max_norm: float | None = None
    clips: str = "synced"
    steps: str = "all"
    averages: str = "step"
    shares_start: bool = True
    zeroes: str = "step"


@dataclass(frozen=True)
class Trained:
    """What became of it.

    Attributes:
        parameters: by rank, by name.
        losses: [epochs, ranks, batches].
        norms: of the gradients of rank 0 before they are clipped, in each step.
    """

    parameters: list[dict[str, torch.Tensor]]
    losses: torch.Tensor
    norms: list[float]


def train(case: Case, order: Order, way: TrainingWay | None = None) -> Trained:
    """Train the models of all ranks in this process. `order`: of the samples."""
    way, training, inputs = way or TrainingWay(), case.facts, case.inputs
    starts = [own["parameters"] for own in inputs]
    models = [_model(case, rank, starts[0 if way.shares_start else rank]) for rank in range(training.ranks)]
    norms: list[float] = []
    most = inputs[0]["max_norm"] if way.max_norm is None else way.max_norm
    losses = torch.zeros(training.epochs, training.ranks, training.batches, dtype=torch.float64)
    for epoch, number in itertools.product(range(training.epochs), range(1, training.batches + 1)):
        for rank, model in enumerate(models):
            batch = order[epoch][rank][number - 1]
            loss = mse_loss(model(inputs[rank]["x"][batch]), inputs[rank]["y"][batch])
            losses[epoch, rank, number - 1] = loss.detach()
            (loss * way.scale / _divisor(training, number, way)).backward()
        _end_of_batch(models, training, number, way, most, norms, inputs[0]["rate"])
    return Trained([_parameters(model) for model in models], losses, norms)


def _divisor(training: TrainingPlan, number: int, way: TrainingWay) -> int:
    """What the loss of batch `number` is divided by."""
    left = training.batches % training.accumulate
    return left if way.divides_rest and number > training.batches - left else training.accumulate


def _model(case: Case, rank: int, start: dict[str, torch.Tensor]) -> GatedNetwork:
    return GatedNetwork(start, case.inputs[rank]["x"], case.part.gate(rank))


def _parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _end_of_batch(
    models: Sequence[GatedNetwork],
    training: TrainingPlan,
    number: int,
    way: TrainingWay,
    max_norm: float,
    norms: list[float],
    rate: float,
) -> None:
    """What follows after the backward passes of all ranks."""
    is_whole = number % training.accumulate == 0
    is_due = is_whole or number == training.batches
    is_step = {"all": is_due, "whole": is_whole, "each": True}[way.steps]
    if way.clips == "each" and not is_step or way.clips == "own" and is_step:
        _clip(models, max_norm)
    if is_step:
        is_averaged = way.averages == "step" or (way.averages == "group" and is_due)
        if is_averaged:
            _average(models)
        norms.append(float(torch.cat([_gradient(each).flatten() for each in models[0].parameters()]).norm()))
        clips = way.clips in ("synced", "each", "value") or way.clips == "whole" and is_whole
        if clips and (is_averaged or way.averages == "never"):
            _clip(models, max_norm, by_value=way.clips == "value")
        for parameter in _all_parameters(models):
            parameter.data -= rate * _gradient(parameter)
    if {"step": is_step, "group": is_due, "batch": True, "never": False}[way.zeroes]:
        for parameter in _all_parameters(models):
            parameter.grad = None


def _all_parameters(models: Sequence[GatedNetwork]) -> list[torch.nn.Parameter]:
    return [parameter for model in models for parameter in model.parameters()]


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _average(models: Sequence[GatedNetwork]) -> None:
    for same in zip(*(model.parameters() for model in models), strict=True):
        mean = torch.stack([_gradient(parameter) for parameter in same]).mean(0)
        for parameter in same:
            parameter.grad = mean.clone()


def _clip(models: Sequence[GatedNetwork], most: float, by_value: bool = False) -> None:
    clip = torch.nn.utils.clip_grad_value_ if by_value else torch.nn.utils.clip_grad_norm_
    for model in models:
        clip(model.parameters(), most)
