"""In virtual time computing takes no time, unless somebody says how much. This says it, for each layer of the model.

    forward     2 · W · t operations for a layer whose matrices have W numbers on this rank, and t tokens
    backward    twice as many: the gradients of its inputs, and of its weights

W counts matrices that something is multiplied by, so nothing of the first layer, which looks up its rows. What is left
out: norms, scores of attention (1 % of a layer with 9 tokens and 128 features), the loss, the optimizer. All ranks
compute at the same speed, whatever the size of their matrices: a real device is slower with small ones.

The rank sleeps for as long, in the forward pass when the layer has computed, and in the backward pass before it does.
So messages that are under way meanwhile are hidden behind it, as they would be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from distlib.arguments import check_number
from distlib.communicator import Communicator


def take_time(comm: Communicator, layers: nn.Sequential, speed: float) -> None:
    """Make each layer of a model take virtual time, in place. Call it before any wrapper.

    Args:
        comm: whose clock is used.
        layers: each takes and returns one tensor whose first two dimensions are [sequences, tokens].
        speed: operations per second.

    Raises:
        ValueError: a speed that is not above 0.
    """
    check_number("take_time", "speed", speed, above=0)
    for layer in list(layers)[1:]:
        per_token = 2 * sum(each.numel() for each in layer.parameters() if each.ndim > 1) / speed
        layer.register_forward_hook(_timed(comm, per_token))


def _timed(comm: Communicator, per_token: float) -> Callable[[nn.Module, Any, torch.Tensor], torch.Tensor]:
    def after_forward(layer: nn.Module, inputs: Any, outputs: torch.Tensor) -> torch.Tensor:
        seconds = per_token * outputs.shape[0] * outputs.shape[1]
        comm.sleep(seconds)
        slowed: torch.Tensor = _SleepInBackward.apply(outputs, comm, 2 * seconds)
        return slowed

    return after_forward


class _SleepInBackward(torch.autograd.Function):
    """Returns its input; in the backward pass the rank sleeps before the gradient goes on."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, comm: Communicator, seconds: float) -> torch.Tensor:
        ctx.comm, ctx.seconds = comm, seconds
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.comm.sleep(ctx.seconds)
        return gradients[0], None, None
