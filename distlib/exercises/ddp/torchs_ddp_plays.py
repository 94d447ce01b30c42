"""A training program around torch's own DistributedDataParallel: what became of the model, and which passes it made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.layers import linear
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator
from distlib.worlds.private_torch import at_end_of_backward

RUNS_TORCH = True
IMPORTED_LATE = ("torch._dynamo",)  # by the first optimizer of a process, in seconds

FORWARD, OUTSIDE, BACKWARD = "forward", "outside", "backward"


class WatchedLayers(torch.nn.Module):
    """Linear layers with a tanh between them. It notes its passes.

    Args:
        layers: weight and bias of each; copied.
        frozen: the layers that are not trained, by their numbers.

    Attributes:
        passes: each forward pass that a backward pass may follow: FORWARD, or OUTSIDE if no DDP has called it, and how
            many samples; each backward pass: BACKWARD, and 0.
        gradients: of each backward pass, those of all parameters as it ends; None for one that has none.
    """

    def __init__(self, layers: Sequence[tuple[torch.Tensor, torch.Tensor]], frozen: Sequence[int]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(linear(weight, bias) for weight, bias in layers)
        for number in frozen:
            self.layers[number].requires_grad_(False)
        self.passes: list[tuple[str, int]] = []
        self.gradients: list[list[torch.Tensor | None]] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of [samples, features]: [samples, outputs]."""
        *below, last = self.layers
        values = inputs
        for layer in below:
            values = torch.tanh(layer(values))
        outputs: torch.Tensor = last(values)
        if outputs.requires_grad:
            self.passes.append((FORWARD if _is_inside_ddp() else OUTSIDE, len(inputs)))
            outputs.register_hook(self._note_backward)
        return outputs

    def _note_backward(self, gradient: torch.Tensor) -> None:
        self.passes.append((BACKWARD, 0))
        # What is asked for at the end follows what DDP does there.
        at_end_of_backward(lambda: at_end_of_backward(self._note_gradients))

    def _note_gradients(self) -> None:
        gradients = [parameter.grad for parameter in self.parameters()]
        self.gradients.append([None if gradient is None else gradient.clone() for gradient in gradients])


def _is_inside_ddp() -> bool:
    """Whether a method of torch's DDP is among those that have led here."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if isinstance(frame.f_locals.get("self"), DistributedDataParallel):
            return True
        frame = frame.f_back
    return False


def train_in_group(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(model, steps, rate)` where torch's default process group is open.

    Args:
        inputs: "layers" and "frozen" of the model; "steps": of each the microbatches, pairs of inputs and targets; the
            "rate".

    Returns:
        The "parameters" afterwards, in their order; the "passes" of the model, and its "gradients".
    """
    model = WatchedLayers(inputs["layers"], inputs["frozen"])
    with process_group(comm):
        function(model, inputs["steps"], inputs["rate"])
        parameters = [each.detach().clone() for each in model.parameters()]
        return {"parameters": parameters, "passes": model.passes, "gradients": model.gradients}
