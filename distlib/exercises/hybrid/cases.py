"""Cases for a step on a mesh: what each rank is given, and what a single process computes.

MeshPlan({"dp": 2, "pp": 2, "tp": 2}, samples=[[2, 1], [1, 3]])      two replicas, of two microbatches each

The model is a chain of stages, as many as pp has. A stage's hidden features are cut by tp, each replica of dp has its
own samples, and the loss is the mean over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.task import Draw
from distlib.exercises.hybrid.plays import AXES, LOSSES, step
from distlib.training.mesh.coordinates import coordinates_of, sizes_in_words

CUT = {"up": 0, "up_bias": 0, "down": 1}  # the dimension along which tp cuts; "bias" is on all


@dataclass(frozen=True)
class MeshPlan:
    """A mesh, and what its ranks are given.

    Attributes:
        sizes: of the axes dp, pp and tp, in the order of the mesh.
        samples: by replica, then microbatch.
        loss: one of `LOSSES`.
        calls: how often the function is called, with the same arguments. What is judged is the last time.
        gains: how many parameters multiply the output of each stage: one for each feature, then one for all.
        features: of what goes into a stage; 0: `step_case` draws it.
        part: the hidden features of each rank of tp.
    """

    sizes: Mapping[str, int]
    samples: Sequence[Sequence[int]]
    loss: str = "squared error"
    calls: int = 1
    gains: int = 0
    features: int = 0
    part: int = 2

    @property
    def global_batch_size(self) -> int:
        """The samples of all replicas."""
        return sum(map(sum, self.samples))

    @property
    def title(self) -> str:
        """ "on 8 ranks, dp 2 × pp 2 × tp 2, batches of 2 + 1 and 1 + 3"."""
        batches = " and ".join(" + ".join(map(str, own)) for own in self.samples)
        title = f"on {count(math.prod(self.sizes.values()), 'rank')}, {sizes_in_words(self.sizes)}, "
        title += f"{'batch' if len(self.samples) == 1 else 'batches'} of {batches}, {count(self.features, 'feature')}"
        title += f", {count(self.gains, 'gain')}" * (self.gains > 0)
        called = f", called {count(self.calls, 'time')}" if self.calls > 1 else ""
        return title + f", {self.loss}" * (self.loss != MeshPlan.loss) + called

    def where(self, rank: int) -> dict[str, int]:
        """Where a rank stands, by axis."""
        return coordinates_of(rank, self.sizes)

    def is_first(self, rank: int) -> bool:
        """Whether a rank has the first stage."""
        return self.where(rank)["pp"] == 0

    def is_last(self, rank: int) -> bool:
        """Whether a rank has the last stage."""
        return self.where(rank)["pp"] == self.sizes["pp"] - 1


def drawn_plan(draw: Draw, sizes: Sequence[int]) -> MeshPlan:
    """Axes of these sizes in any order, and 1 to 4 samples in each of 4 to 6 microbatches."""
    axes = draw.sample(AXES, len(AXES))
    named = dict(zip(AXES, sizes, strict=True))
    microbatches = draw.randint(4, 6)
    samples = [[draw.randint(1, 4) for _ in range(microbatches)] for _ in range(named["dp"])]
    return MeshPlan({axis: named[axis] for axis in axes}, samples, gains=draw.randrange(3))


def step_case(draw: Draw, layout: MeshPlan) -> Case:
    """The case of a layout. Its facts are the layout and what a single process computes.

    Features that are drawn differ in number from samples, microbatches and ranks.
    """
    taken = {len(layout.samples[0]), math.prod(layout.sizes.values()), *(n for own in layout.samples for n in own)}
    drawn = draw.choice([number for number in range(4, 11) if number not in taken])
    layout = replace(layout, features=layout.features or drawn, part=draw.choice((2, 3)))
    alone = WholeChain(draw, layout)
    ranks = range(math.prod(layout.sizes.values()))
    inputs = [
        {
            "sizes": dict(layout.sizes),
            "parameters": alone.part(alone.stages[layout.where(rank)["pp"]], layout.where(rank)["tp"]),
            "shapes": [[each, layout.features] for each in layout.samples[layout.where(rank)["dp"]]],
            "inputs": alone.inputs[layout.where(rank)["dp"]] if layout.is_first(rank) else None,
            "targets": alone.targets[layout.where(rank)["dp"]] if layout.is_last(rank) else None,
            "loss": layout.loss,
            "global_batch_size": layout.global_batch_size,
            "calls": layout.calls,
        }
        for rank in ranks
    ]
    return Case(layout.title, step, inputs, alone)


class WholeChain:
    """What a single process computes: a model of all stages, on the samples of all replicas.

    Attributes:
        layout: as given.
        stages: by stage, the whole parameters by name.
        inputs, targets: by replica, then microbatch.
        values: by replica, then microbatch, what goes into each stage, and comes out of the last one.
        losses: by replica and microbatch, the sum over the samples.
        gradients: by replica, then stage: the whole gradients, by name, of that replica's part of the mean loss.
        after: by replica, then microbatch, then stage: the same of that microbatch alone.
    """

    def __init__(self, draw: Draw, layout: MeshPlan) -> None:
        self.layout = layout
        hidden, features = layout.part * layout.sizes["tp"], layout.features
        shapes = {"up": (hidden, features), "up_bias": (hidden,), "down": (features, hidden), "bias": (features,)}
        shapes |= {f"gain_{k}": (features,) if k == 0 else () for k in range(layout.gains)}
        self.stages = [
            {name: draw.normal(shape) / 2 for name, shape in shapes.items()} for _ in range(layout.sizes["pp"])
        ]
        self.inputs = [[draw.normal((n, features)) for n in own] for own in layout.samples]
        self.targets = [[draw.normal((n, features)) for n in own] for own in layout.samples]
        self.values: list[list[list[torch.Tensor]]] = []
        self.losses: list[list[float]] = []
        self.gradients: list[list[dict[str, torch.Tensor]]] = []
        self.after: list[list[list[dict[str, torch.Tensor]]]] = []
        for inputs, targets in zip(self.inputs, self.targets, strict=True):
            self._replica(inputs, targets)

    @property
    def loss(self) -> float:
        """The mean over all samples."""
        return math.fsum(map(math.fsum, self.losses)) / self.layout.global_batch_size

    def gradient(self, stage: int, name: str) -> torch.Tensor:
        """The whole gradient of a parameter."""
        return torch.stack([own[stage][name] for own in self.gradients]).sum(0)

    def part(self, whole: Mapping[str, torch.Tensor], tp: int) -> dict[str, torch.Tensor]:
        """What the rank with this number along tp has of parameters or gradients."""
        ranks = self.layout.sizes["tp"]
        return {
            name: each.chunk(ranks, CUT[name])[tp].clone() if name in CUT else each.clone()
            for name, each in whole.items()
        }

    def _replica(self, inputs: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
        stages = [{name: each.clone().requires_grad_() for name, each in stage.items()} for stage in self.stages]
        passed, losses, after = [], [], []
        for values, target in zip(inputs, targets, strict=True):
            chain = [values]
            for stage in stages:
                chain.append(_forward(stage, chain[-1]))
            loss = LOSSES[self.layout.loss](chain[-1], target)
            (loss / self.layout.global_batch_size).backward()
            passed.append([each.detach() for each in chain])
            losses.append(loss.item())
            after.append([{name: _gradient(each) for name, each in stage.items()} for stage in stages])
            for stage in stages:
                for each in stage.values():
                    each.grad = None
        self.values.append(passed)
        self.losses.append(losses)
        self.after.append(after)
        self.gradients.append(
            [
                {name: torch.stack([own[k][name] for own in after]).sum(0) for name in stage}
                for k, stage in enumerate(stages)
            ]
        )


def _forward(stage: Mapping[str, torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    linear = torch.nn.functional.linear
    whole: torch.Tensor = linear(torch.tanh(linear(values, stage["up"], stage["up_bias"])), stage["down"])
    outputs = values + whole + stage["bias"]
    for name in stage:
        outputs = outputs * stage[name] if name.startswith("gain") else outputs
    return outputs


def _gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad
