"""Cases in which every rank trains a model for some steps, and what a single process makes of them.

Weights and batches are drawn from a seed. The gates of each rank multiply gradients by factors of its own, so no rank
can know the gradients of another one without a message (`plays.gated`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, listed
from distlib.checks.rules.values import is_close
from distlib.exercises.ddp.training_plays import Model, descend, evaluate, one_pass

RATE = 0.5
BUFFER = "the buffer "  # before its name, in a remark
ALONE, SHARED, EVALUATION = "in no_sync", "", "in evaluation, after parallel.eval()"  # what a pass may be


@dataclass(frozen=True)
class Training:
    """A piece of training to play on every rank.

    Attributes:
        widths: features of the input, then of each layer's output.
        steps: how many.
        passes: backward passes in each step; all but the last are in no_sync.
        bucket_bytes, first_bucket_bytes: what the student's class is made with.
        frozen: layers that are not trained.
        unused: (step, rank) pairs: there the loss does not depend on the last parameter.
        order: the layers in the order in which they are used; by default that of their registration.
        tied: whether the last layer has the weight of the first one.
        dtype: of everything.
        samples: of each rank, in each batch.
        inputs: how many the module takes: one batch, whether it uses its last parameter, and more batches to add to it.
        buffers: how many of this dtype the module has.
        counts: whether it has one more, an int64.
    """

    widths: Sequence[int]
    steps: int = 2
    passes: int = 1
    bucket_bytes: int = 250
    first_bucket_bytes: int = 100
    frozen: Sequence[int] = ()
    unused: Sequence[tuple[int, int]] = ()
    order: Sequence[int] = ()
    tied: bool = False
    dtype: torch.dtype = torch.float64
    samples: int = 3
    inputs: int = 2
    buffers: int = 1
    counts: bool = False

    @property
    def title(self) -> str:
        """What it is, and what is special about it."""
        notes = [
            f"{count(len(self.widths) - 1, 'layer')}, {count(self.steps, 'step')}",
            f", {self.passes} backward passes per step" * (self.passes > 1),
            ", one layer frozen" * bool(self.frozen),
            ", a parameter without gradient" * bool(self.unused),
            f", layers used in the order {listed(self.order)}" * bool(self.order),
            ", two layers with one weight" * self.tied,
            ", an int64 among its buffers" * self.counts,
        ]
        return "".join(notes)

    @property
    def kinds(self) -> list[str]:
        """What each pass of a step is."""
        return [*[ALONE] * (self.passes - 1), SHARED, EVALUATION]


def training_inputs(training: Training, rank: int, seed: int, seconds: float) -> dict[str, Any]:
    """What a rank is given. `seconds`: of virtual time for the gradients of a layer."""
    numbers = torch.Generator().manual_seed((seed + 7919 * rank) % 2**63)

    def draw(*shape: int) -> torch.Tensor:
        return (torch.rand(*shape, generator=numbers, dtype=torch.float64) - 0.5).to(training.dtype)

    widths = training.widths
    layers = [(draw(after, before), draw(after)) for before, after in itertools.pairwise(widths)]
    state = {
        "layers": layers,
        "extra": draw(widths[-1]) + 1,
        "mean": draw(widths[0]),
        "count": torch.randint(99, (), generator=numbers) if training.counts else None,
        "more": [draw(number + 1) for number in range(training.buffers - 1)],
        "tied": training.tied,
        "inputs": training.inputs,
        "frozen": list(training.frozen),
        "order": list(training.order or range(len(layers))),
    }

    def batch(step: int) -> dict[str, Any]:
        uses_extra = (step, rank) not in training.unused
        values, *more = [draw(training.samples, widths[0]) for _ in range(training.inputs - 1)]
        return {"inputs": [values, uses_extra, *more], "y": draw(training.samples, widths[-1])}

    return {
        "state": state,
        "steps": [[batch(step) for _ in training.kinds] for step in range(training.steps)],
        "options": {"bucket_bytes": training.bucket_bytes, "first_bucket_bytes": training.first_bucket_bytes},
        "seconds": seconds,
        "rate": RATE,
    }


# ── a single process ─────────────────────────────────────────────────────────────────────────────────────────────────

Gradients = list[torch.Tensor | None]  # by parameter; None for one that has none


@dataclass(frozen=True)
class RightStep:
    """One step of a single process.

    Attributes:
        earlier: after each pass in no_sync: by rank, by parameter: the rank's gradients.
        own: the same after all passes.
        averages, parameters: by parameter, at the end.
    """

    earlier: list[list[Gradients]]
    own: list[Gradients]
    averages: Gradients
    parameters: list[torch.Tensor]


@dataclass(frozen=True)
class Right:
    """What every rank must come to.

    Attributes:
        constructed: parameters and buffers after construction, by name.
        steps: one after the other.
        seen: by rank, the buffers at the beginning of each forward pass.
    """

    constructed: dict[str, torch.Tensor]
    steps: list[RightStep] = field(default_factory=list)
    seen: list[list[torch.Tensor]] = field(default_factory=list)


def train_alone(case: Case) -> Right:
    """Take the steps of all ranks in this process: each rank's gradients, one after the other, and their average."""
    training: Training = case.facts
    gates, batches = [case.part.gate(rank) for rank in range(case.world_size)], [each["steps"] for each in case.inputs]
    models = [Model(case.inputs[0]["state"], gate) for gate in gates]
    parameters, numbers = list(models[0].parameters()), itertools.count(1)
    right = Right(tensors_of(models[0]))
    for step in range(training.steps):
        after_each_pass = []
        for position, number in zip(range(training.passes), numbers, strict=False):
            if training.kinds[position] == SHARED:
                for model in models[1:]:
                    for mine, first in zip(model.buffers(), models[0].buffers(), strict=True):
                        mine.copy_(first)
            for model, gate, mine in zip(models, gates, batches, strict=True):
                one_pass(model, model, mine[step][position], number, gate)
            after_each_pass.append([_copies([p.grad for p in model.parameters()]) for model in models])
        *earlier, own = after_each_pass
        averages = [_average([gradients[k] for gradients in own], p) for k, p in enumerate(parameters)]
        for model in models:
            for parameter, gradient in zip(model.parameters(), averages, strict=True):
                parameter.grad = gradient
            descend(model, RATE)
        right.steps.append(RightStep(earlier, own, averages, [p.detach().clone() for p in parameters]))
        number = next(numbers)
        for model, gate, mine in zip(models, gates, batches, strict=True):
            evaluate(model, mine[step][-1], number, gate)
    right.seen.extend(model.running.seen for model in models)
    return right


def tensors_of(model: Model) -> dict[str, torch.Tensor]:
    """Copies of the parameters and the buffers, by what a remark calls them."""
    buffers = [(f"{BUFFER}{name}", buffer) for name, buffer in model.named_buffers()]
    named = [*model.named_parameters(), *buffers]
    return {name: tensor.detach().clone() for name, tensor in named}


def _copies(gradients: Gradients) -> Gradients:
    return [None if gradient is None else gradient.clone() for gradient in gradients]


def _average(own: Gradients, like: torch.nn.Parameter) -> torch.Tensor | None:
    there = [gradient for gradient in own if gradient is not None]
    return sum(there, torch.zeros_like(like)) / len(own) if like.requires_grad else None


def same(found: Any, right: Any) -> bool:
    """Whether two tensors differ by rounding at most: sums are made in another order on several ranks."""
    is_single = isinstance(right, torch.Tensor) and right.dtype == torch.float32
    return is_close(found, right, relative=1e-4, absolute=1e-6) if is_single else is_close(found, right, absolute=1e-9)
