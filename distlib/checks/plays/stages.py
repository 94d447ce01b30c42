"""One stage of a pipeline on each rank, driven by a student's function; counts the microbatches that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def run_actions(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(comm, stage, actions, inputs, targets, loss_function)`.

    Args:
        inputs: "weight": of this rank's stage; "actions": such as "0F0"; "microbatches": their inputs, which only rank
            0 gets; "targets": which only the last rank gets.

    Returns:
        "returned"; "gradient": of the weight; "passes": "FFBB", as they were made; "alive": the most microbatches that
        were kept at the same time, as far as their backward graphs tell.
    """
    stage, is_first, is_last = Stage(inputs["weight"]), comm.rank == 0, comm.rank == comm.world_size - 1
    given = [each.clone() if is_first else torch.full_like(each, torch.nan) for each in inputs["microbatches"]]
    targets = [each.clone() for each in inputs["targets"]] if is_last else None
    returned = function(comm, stage, list(inputs["actions"]), given, targets, half_square)
    returned = returned.detach() if isinstance(returned, torch.Tensor) else returned
    return {"returned": returned, "gradient": stage.weight.grad, "passes": stage.passes, "alive": stage.most_alive}


def half_square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of a microbatch: half the sum of the squares of the differences."""
    return (outputs - targets).square().sum() / 2


class Stage(torch.nn.Module):
    """tanh(x·Wᵀ), and notes of what happens to it."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight.clone())
        self.passes, self.most_alive = "", 0
        self.alive: WeakSet[_Token] = WeakSet()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[samples, features] → [samples, features]."""
        if torch.is_grad_enabled():
            self.passes += "F"
        output: torch.Tensor = _Noted.apply(torch.tanh(inputs @ self.weight.T), self)
        self.most_alive = max(self.most_alive, len(self.alive))
        return output


class _Token:
    """Lives as long as the backward graph of one microbatch."""


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, stage: Stage) -> torch.Tensor:
        ctx.stage, ctx.token = stage, _Token()
        if torch.is_grad_enabled() or tensor.requires_grad:
            stage.alive.add(ctx.token)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.stage.passes += "B"
        return gradients[0], None
