"""Rounds of local SGD in one process, one model for each rank: as they should be, and with usual mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.large_batches import LOSSES, Descent, Model, leave_gradients, tensors_of
from distlib.grading.scenario_case import Part

Tensors = dict[str, torch.Tensor]  # parameters and buffers of one rank, by name


@dataclass(frozen=True)
class Rounds:
    """What the ranks do.

    Attributes:
        steps: by rank, the local steps of a round.
        rounds: how many rounds.
        buffers: whether the model has any.
        loss: "cross_entropy" or "squared".
        batch_size: of rank 0; every further rank has one sample more.
    """

    steps: Sequence[int]
    rounds: int = 1
    buffers: bool = False
    loss: str = "cross_entropy"
    batch_size: int = 3


MISTAKES = {
    "average each step": "this is what averaging in each step gives, be it gradients or parameters. Ranks take their "
    "steps alone; then the parameters are averaged, once.",
    "no zero_grad": "the gradients of earlier steps were still in parameter.grad: optimizer.zero_grad() before each "
    "backward.",
    "zero_grad once": "the gradients of earlier steps were still in parameter.grad: optimizer.zero_grad() before each "
    "backward, inside the loop.",
    "step once": "this is a single step with the gradients of all batches. Each batch is a step: optimizer.step() "
    "inside the loop.",
    "plain steps": "these are steps without momentum. How to step is the optimizer's business: optimizer.step().",
    "sum": "the losses of a batch were added up. A step follows their mean.",
}


class Ranks:
    """The ranks of one case: their models and optimizers.

    Args:
        part: of the case; its inputs are those of scenarios.large_batches.local_rounds.
    """

    def __init__(self, part: Part) -> None:
        self.given: Sequence[dict[str, Any]] = part.inputs
        self.models, self.optimizers = [], []
        for rank, given in enumerate(part.inputs):
            model = Model(given["state"], part.gate(rank))
            leave_gradients(model, given["old"])
            self.models.append(model)
            self.optimizers.append(Descent(model.parameters(), given["rate"]))

    def take_round(self, number: int) -> None:
        """The local steps of a round, as they should be."""
        for rank, optimizer in enumerate(self.optimizers):
            for step in range(len(self.given[rank]["rounds"][number])):
                optimizer.zero_grad()
                self.backward(rank, number, step)
                optimizer.step()

    def backward(self, rank: int, number: int, step: int, *, mean: bool = True) -> None:
        """Forward and backward for one batch of a round."""
        inputs, targets = self.given[rank]["rounds"][number][step]
        losses = LOSSES[self.given[rank]["loss"]](self.models[rank](inputs), targets)
        (losses.mean() if mean else losses.sum()).backward()

    @torch.no_grad()
    def average(self) -> None:
        """Average parameters and floating-point buffers."""
        for same in zip(*(model.state_dict().values() for model in self.models), strict=True):
            if same[0].is_floating_point():
                mean = torch.stack(same).mean(0)
                for tensor in same:
                    tensor.copy_(mean)

    def tensors(self) -> list[Tensors]:
        """What each rank has."""
        return [tensors_of(model) for model in self.models]


def play_rounds(part: Part, rounds: int) -> tuple[list[list[Tensors]], list[list[Tensors]]]:
    """What the ranks have in each round, by round and rank: before the average, and after it."""
    ranks, alone, averaged = Ranks(part), [], []
    for number in range(rounds):
        ranks.take_round(number)
        alone.append(ranks.tensors())
        ranks.average()
        averaged.append(ranks.tensors())
    return alone, averaged


def play_mistaken(part: Part, mistake: str) -> list[Tensors]:
    """What each rank has after the first round with one of the MISTAKES."""
    ranks = Ranks(part)
    lengths = [len(given["rounds"][0]) for given in part.inputs]
    together = mistake == "average each step"
    for step in range(min(lengths) if together else max(lengths)):
        acting = [rank for rank, length in enumerate(lengths) if step < length]
        for rank in acting:
            if mistake != "no zero_grad" and (mistake not in ("zero_grad once", "step once") or step == 0):
                ranks.optimizers[rank].zero_grad()
            ranks.backward(rank, 0, step, mean=mistake != "sum")
        for rank in acting:
            _step(ranks.optimizers[rank], mistake, is_last=step == lengths[rank] - 1)
        if mistake == "average each step":
            ranks.average()
    ranks.average()
    return ranks.tensors()


@torch.no_grad()
def _step(optimizer: Descent, mistake: str, is_last: bool) -> None:
    if mistake == "plain steps":
        for parameter in optimizer.param_groups[0]["params"]:
            parameter -= optimizer.param_groups[0]["lr"] * parameter.grad
    elif mistake != "step once" or is_last:
        optimizer.step()
