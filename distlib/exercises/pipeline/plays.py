"""One stage of a pipeline around a student's `run_stage`: it notes what the stage computes, and what is kept.

    values ──► linear ──► tanh ──► noted ──► output          noted: forward number k, its input; a copy is kept
    gradients ◄─────────────────── noted ◄── gradient               the gradient that comes back for forward number k

The copy belongs to what autograd keeps for the backward pass of this forward pass, and is freed with it. So the copies
that are there at the same time are the forward passes that the stage keeps. Of inputs it is the memory that counts: a
detached tensor holds on to it, too. (Copies that a function makes itself are not seen.)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.layers import linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # messages may be sent there


class StageNotes:
    """What a stage has done: "F" and "B" with the number of the forward pass, in order, and the tensors of each."""

    def __init__(self) -> None:
        self._graphs: list[weakref.ref[torch.Tensor]] = []
        self._inputs: list[StorageWeakRef] = []
        self.begin()

    def begin(self) -> None:
        """Begin anew. What is still alive from before is counted on."""
        self.did: list[tuple[str, int]] = []
        self.inputs: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.kept: list[int] = []
        self.kept_inputs: list[int] = []

    def forward(self, values: torch.Tensor, copy: torch.Tensor) -> int:
        """Note a forward pass and what is alive at its end; return its number."""
        self._inputs = [each for each in self._inputs if not each.expired()] + [
            StorageWeakRef(values.untyped_storage())
        ]
        self._graphs.append(weakref.ref(copy))
        self.inputs.append(values.detach().clone())
        self.kept.append(sum(graph() is not None for graph in self._graphs))
        self.kept_inputs.append(len({each.cdata for each in self._inputs}))
        self.did.append(("F", len(self.inputs) - 1))
        return len(self.inputs) - 1

    def backward(self, number: int, gradient: torch.Tensor) -> None:
        """Note the gradient of an output."""
        self.did.append(("B", number))
        self.gradients.append(gradient.detach().clone())


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, values: torch.Tensor, notes: StageNotes) -> torch.Tensor:
        copy = outputs.clone()
        ctx.save_for_backward(copy)
        ctx.notes, ctx.number = notes, notes.forward(values, copy)
        return outputs.view_as(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        ctx.notes.backward(ctx.number, gradients[0])
        return gradients[0].clone(), None, None


class NotedStage(torch.nn.Module):
    """A linear layer and tanh, noted."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, notes: StageNotes) -> None:
        super().__init__()
        self.layer, self._notes = linear(weight, bias), notes

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, features]."""
        passed: torch.Tensor = _Noted.apply(torch.tanh(self.layer(values)), values, self._notes)
        return passed


def mean_squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over all samples and features; shape []."""
    return (outputs - targets).square().mean()


def mean_absolute_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean over all samples and features; shape []."""
    return (outputs - targets).abs().mean()


LOSSES = {"squared error": mean_squared_error, "absolute error": mean_absolute_error}


def one_stage(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, module, actions, shapes, inputs, targets, loss_function)`.

    Args:
        inputs: "weight" and "bias" of this rank's stage, "actions", "shapes", "inputs", "targets"; "loss": one of
            `LOSSES`; "calls": how often it is called, each time with `parameter.grad` None.

    Returns:
        Of the last call, "loss": what it returned; "gradients" and "parameters" afterwards; of the notes "did",
        "inputs" of the forward passes, "arrived": the gradients of their outputs, and at the end of each forward pass
        how many were "kept", and how many "kept_inputs" were alive. "given": the four arguments afterwards;
        "requires_grad": whether any of them has come to require a gradient.
    """
    notes = StageNotes()
    stage = NotedStage(inputs["weight"], inputs["bias"], notes)
    given: dict[str, Any] = {"actions": list(inputs["actions"]), "shapes": [list(shape) for shape in inputs["shapes"]]}
    for name in ("inputs", "targets"):
        given[name] = None if inputs[name] is None else [each.clone() for each in inputs[name]]
    tensors = [*(given["inputs"] or ()), *(given["targets"] or ())]
    for _ in range(inputs["calls"]):
        notes.begin()
        stage.zero_grad()
        loss = function(comm, stage, *given.values(), LOSSES[inputs["loss"]])
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
        "given": given,
        "requires_grad": any(each.requires_grad for each in tensors),
    }
