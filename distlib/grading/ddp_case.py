"""Cases of the check of OverlappedDDP: models and batches from a seed, and what a single process makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from distlib.checks.plays.training import Model, descend, one_pass, train
from distlib.grading.case import count
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.network import Cluster, Link
from distlib.training.buckets import assign_buckets

SAMPLES = 3  # of each rank, in each batch
GATE_SECONDS = 0.01
ALL_REDUCE_SECONDS = 0.008  # about the time of an average bucket's, a little less than that of a layer


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
        dtype: of everything.
    """

    widths: Sequence[int]
    steps: int = 2
    passes: int = 1
    bucket_bytes: int = 250
    first_bucket_bytes: int = 100
    frozen: Sequence[int] = ()
    unused: Sequence[tuple[int, int]] = ()
    dtype: torch.dtype = torch.float64

    @property
    def num_layers(self) -> int:
        """How many linear layers."""
        return len(self.widths) - 1

    @property
    def notes(self) -> str:
        """What is special about it, for titles."""
        return "".join(
            [
                f", {self.passes} backward passes per step" if self.passes > 1 else "",
                ", one layer frozen" if self.frozen else "",
                ", a parameter without gradient" if self.unused else "",
            ]
        )


@dataclass(frozen=True)
class DdpCase:
    """A `Training` on some ranks, with everything drawn from a seed.

    Attributes:
        training: what is played.
        inputs: by rank.
        part: what the ranks are given.
    """

    training: Training
    inputs: Sequence[dict[str, Any]]
    part: Part = field(repr=False)

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.inputs)

    @cached_property
    def names(self) -> list[str]:
        """What each parameter is called, in the order of registration."""
        return [name for name, _ in _model_of(self, 0).named_parameters()]

    @cached_property
    def trained(self) -> list[int]:
        """The numbers of the parameters that are trained."""
        return [number for number, p in enumerate(_model_of(self, 0).parameters()) if p.requires_grad]

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of each parameter that is trained."""
        return [p.nbytes for p in _model_of(self, 0).parameters() if p.requires_grad]

    @cached_property
    def buckets(self) -> list[list[int]]:
        """The buckets: each with the positions of its parameters among those that are trained."""
        return assign_buckets(self.sizes, self.training.bucket_bytes, self.training.first_bucket_bytes)

    def bucket_nbytes(self, bucket: int) -> int:
        """The size of a bucket in bytes."""
        return sum(self.sizes[position] for position in self.buckets[bucket])

    def layer_of(self, position: int) -> int | None:
        """The layer that a parameter that is trained belongs to; None for the one behind all layers."""
        words = self.names[self.trained[position]].split(".")
        return int(words[1]) if words[0] == "layers" else None

    @cached_property
    def right(self) -> Right:
        """What a single process comes to."""
        return train_alone(self)


@dataclass(frozen=True)
class Right:
    """What every rank must come to.

    Attributes:
        constructed: parameters and buffer after construction.
        gradients, parameters: after each step, by parameter. The gradient of a parameter that is not trained is None.
        own: what each rank's gradients were before they were averaged: by step, by rank, by parameter.
        seen: by rank, the buffer at the beginning of each forward pass. Rank 0's is copied to all before each pass, but
            not in no_sync.
    """

    constructed: list[torch.Tensor]
    gradients: list[list[torch.Tensor | None]]
    parameters: list[list[torch.Tensor]]
    own: list[list[list[torch.Tensor | None]]]
    seen: list[list[torch.Tensor]]


def make_case(name: str, training: Training, world_size: int, seed: int) -> ScenarioCase:
    """Draw a case from a seed."""
    inputs = [_inputs(training, rank, seed) for rank in range(world_size)]
    part = Part(train, inputs, seed, apart=0.0)
    case = DdpCase(training, inputs, part)
    title = (
        f"{name} on {count(world_size, 'rank')}, {count(training.num_layers, 'layer')}, {count(training.steps, 'step')}"
    )
    return ScenarioCase(f"{title}{training.notes}", part, _cluster(case), case)


def _cluster(case: DdpCase) -> Cluster:
    """A network on which the all-reduce of an average bucket takes a little less than a layer's backward pass."""
    size = case.world_size
    average = sum(case.sizes) / len(case.buckets)
    bandwidth = max(1.0, 2 * (size - 1) / size * average / ALL_REDUCE_SECONDS)
    return Cluster.flat(size, Link(latency=1e-5, bandwidth=bandwidth))


def _inputs(training: Training, rank: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed((seed + 7919 * rank) % 2**63)

    def draw(*shape: int) -> torch.Tensor:
        return (torch.rand(*shape, generator=generator, dtype=torch.float64) - 0.5).to(training.dtype)

    widths = training.widths
    layers = [(draw(after, before), draw(after)) for before, after in zip(widths, widths[1:], strict=False)]
    state = {"layers": layers, "extra": draw(widths[-1]) + 1, "mean": draw(widths[0])}
    steps = [
        [
            {"x": draw(SAMPLES, widths[0]), "y": draw(SAMPLES, widths[-1]), "uses_extra": (step, rank) not in unused}
            for unused in [set(training.unused)] * training.passes
        ]
        for step in range(training.steps)
    ]
    options = {"bucket_bytes": training.bucket_bytes, "first_bucket_bytes": training.first_bucket_bytes}
    return {
        "state": state, "frozen": list(training.frozen), "seconds": GATE_SECONDS, "options": options, "rate": 0.5,
        "steps": steps,
    }  # fmt: skip


# ── a single process ─────────────────────────────────────────────────────────────────────────────────────────────────


def train_alone(case: DdpCase) -> Right:
    """Take the steps of all ranks in this process: each rank's gradients, one after the other, and their average."""
    models = [_model_of(case, rank) for rank in range(case.world_size)]
    right = Right([t.detach().clone() for t in [*models[0].parameters(), models[0].running.mean]], [], [], [], [])
    for step in range(case.training.steps):
        for position in range(case.training.passes):
            if position == case.training.passes - 1:
                for model in models[1:]:
                    model.running.mean.copy_(models[0].running.mean)
            for rank, model in enumerate(models):
                number = 1 + step * case.training.passes + position
                one_pass(model, model, case.inputs[rank]["steps"][step][position], number, case.part.gate(rank))
        own = [[None if p.grad is None else p.grad.clone() for p in model.parameters()] for model in models]
        average = [_average([each[k] for each in own], p) for k, p in enumerate(models[0].parameters())]
        for model in models:
            for parameter, gradient in zip(model.parameters(), average, strict=True):
                parameter.grad = gradient
            descend(model, case.inputs[0]["rate"])
        right.own.append(own)
        right.gradients.append(average)
        right.parameters.append([p.detach().clone() for p in models[0].parameters()])
    right.seen.extend(model.running.seen for model in models)
    return right


def _model_of(case: DdpCase, rank: int) -> Model:
    return Model(case.inputs[0]["state"], list(case.training.frozen), case.part.gate(rank), 0.0)


def _average(gradients: Sequence[torch.Tensor | None], parameter: torch.nn.Parameter) -> torch.Tensor | None:
    if not parameter.requires_grad:
        return None
    total = torch.zeros_like(parameter)
    for gradient in gradients:
        if gradient is not None:
            total += gradient
    return total / len(gradients)
