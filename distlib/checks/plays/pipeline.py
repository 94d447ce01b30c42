"""One stage of a pipeline around a student's `run_stage`: it notes what the stage computes, and what is kept.

    values ──► linear ──► tanh ──► noted ──► output          noted: forward number k, its input; a copy is kept
    gradients ◄─────────────────── noted ◄── gradient               the gradient that comes back for forward number k

The copy belongs to what autograd keeps for the backward pass of this forward pass, and is freed with it. So the copies
that are there at the same time are the forward passes that the stage keeps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.layers import linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # messages may be sent there


class Notes:
    """What a stage has done: "F" and "B" with the number of the forward pass, in order, and the tensors of each."""

    def __init__(self) -> None:
        self.did: list[tuple[str, int]] = []
        self.inputs: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.kept: list[int] = []
        self.kept_inputs: list[int] = []
        self._graphs: list[weakref.ref[torch.Tensor]] = []
        self._inputs: list[weakref.ref[torch.Tensor]] = []

    def forward(self, values: torch.Tensor, copy: torch.Tensor) -> int:
        """Note a forward pass and what is alive at its end; return its number."""
        self._inputs.append(weakref.ref(values))
        self._graphs.append(weakref.ref(copy))
        self.inputs.append(values.detach().clone())
        self.kept.append(_alive(self._graphs))
        self.kept_inputs.append(_alive(self._inputs))
        self.did.append(("F", len(self.inputs) - 1))
        return len(self.inputs) - 1

    def backward(self, number: int, gradient: torch.Tensor) -> None:
        """Note the gradient of an output."""
        self.did.append(("B", number))
        self.gradients.append(gradient.detach().clone())


def _alive(references: Sequence[weakref.ref[torch.Tensor]]) -> int:
    return sum(reference() is not None for reference in references)


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, values: torch.Tensor, notes: Notes) -> torch.Tensor:
        copy = outputs.clone()
        ctx.save_for_backward(copy)
        ctx.notes, ctx.number = notes, notes.forward(values, copy)
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        ctx.notes.backward(ctx.number, gradients[0])
        return gradients[0].clone(), None, None


class Stage(torch.nn.Module):
    """A linear layer and tanh, noted."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, notes: Notes) -> None:
        super().__init__()
        self.layer, self._notes = linear(weight, bias), notes

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, features]."""
        passed: torch.Tensor = _Noted.apply(torch.tanh(self.layer(values)), values, self._notes)
        return passed


def mean_squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over all samples and features; shape []."""
    return (outputs - targets).square().mean()


def one_stage(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, module, actions, shapes, inputs, targets, loss_function)`.

    Args:
        inputs: "weight" and "bias" of this rank's stage, "actions", "shapes", "inputs", "targets".

    Returns:
        "loss": what it returned; "gradients" and "parameters" afterwards; of the notes "did", "inputs" of the forward
        passes, "arrived": the gradients of their outputs, and at the end of each forward pass how many were "kept",
        and how many "kept_inputs" were alive.
    """
    notes = Notes()
    stage = Stage(inputs["weight"], inputs["bias"], notes)
    data = [None if inputs[name] is None else [each.clone() for each in inputs[name]] for name in ("inputs", "targets")]
    loss = function(comm, stage, list(inputs["actions"]), list(inputs["shapes"]), *data, mean_squared_error)
    parameters = list(stage.parameters())
    return {
        "loss": loss,
        "gradients": [parameter.grad for parameter in parameters],
        "parameters": parameters,
        "did": notes.did,
        "inputs": notes.inputs,
        "arrived": notes.gradients,
        "kept": notes.kept,
        "kept_inputs": notes.kept_inputs,
    }
