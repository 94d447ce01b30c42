"""A few steps of training with a student's DistributedDataParallel, with gates in the backward pass.

    x ──► running ──► layer 0 ──► gate ──► … ──► layer L-1 ──► gate ──► (extra) ──► loss

`running` has a buffer that every forward pass in training mode moves towards the mean of its input. `extra` is a
parameter that the loss may depend on, or not. The gates of one backward pass are numbered from L-1 down to 0 in the
order in which they are passed, after `first_gate` of this pass; so no two passes have a gate in common.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import Gate, PassGate
from distlib.checks.plays.layers import Running, linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # time passes there, and messages may be sent

BEGIN, BACKWARD, END = 7, 8, 9  # marks: gates of a pass that are passed before forward, before backward, at the end
GATES = 10  # numbers of gates for each pass; the layers take those from 0


def first_gate(number: int) -> int:
    """The gates of pass `number` (0 is the construction) are counted from here."""
    return number * GATES


class Watched(Running):
    """A `Running` whose buffer moves in training mode only, and which keeps what it was.

    Attributes:
        seen: the buffer at the beginning of each forward pass.
    """

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__(start)
        self.seen: list[torch.Tensor] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values` minus the buffer; shape [samples, features]."""
        self.seen.append(self.mean.clone())
        return super().forward(values) if self.training else values - self.mean


class Scale(torch.nn.Module):
    """Multiplies by a parameter, which is registered after those of the layers."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.extra = torch.nn.Parameter(start.clone())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values`, each feature times its factor."""
        return values * self.extra


class Model(torch.nn.Module):
    """The model of the scenario.

    Args:
        state: "layers": weight and bias of each; "extra"; "mean": the buffer; tensors.
        frozen: layers that are not trained.
        gate, seconds: of the scenario; the virtual time that each gate takes.
    """

    def __init__(self, state: dict[str, Any], frozen: list[int], gate: PassGate, seconds: float) -> None:
        super().__init__()
        self.running = Watched(state["mean"])
        self.layers = torch.nn.ModuleList(linear(weight, bias) for weight, bias in state["layers"])
        self.gates = [Gate(gate, number, seconds) for number in range(len(self.layers))]
        self.scale = Scale(state["extra"])
        for number in frozen:
            self.layers[number].requires_grad_(False)

    def number_gates(self, number: int) -> None:
        """Give the gates the numbers of pass `number`."""
        for k, gate in enumerate(self.gates):
            gate.k = first_gate(number) + k

    def forward(self, values: torch.Tensor, uses_extra: bool = True) -> torch.Tensor:
        """Outputs; shape [samples, features]."""
        values = self.running(values)
        for layer, gate in zip(self.layers, self.gates, strict=True):
            values = gate(torch.tanh(layer(values)))
        return self.scale(values) if uses_extra else values


def train(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Make `function(comm, model, **options)` and take some steps with it.

    Args:
        inputs: "state" and "frozen" of the model, "seconds" of a gate, "options" of the function, "rate" of learning;
            "steps": for each the passes, all but the last in no_sync: "x", "y" and "uses_extra".

    Returns:
        "constructed": parameters and buffer after construction; "gradients" and "parameters": after each step, by
        parameter; "seen": the buffer at the beginning of each forward pass.
    """
    model = Model(inputs["state"], inputs["frozen"], gate, inputs["seconds"])
    parallel = function(comm, model, **inputs["options"])
    constructed = [tensor.detach().clone() for tensor in [*model.parameters(), model.running.mean]]
    gate(first_gate(0) + END)
    told: dict[str, Any] = {"constructed": constructed, "gradients": [], "parameters": [], "seen": model.running.seen}
    number = 0
    for passes in inputs["steps"]:
        for position, batch in enumerate(passes):
            number += 1
            is_last = position == len(passes) - 1
            with contextlib.nullcontext() if is_last else parallel.no_sync():
                one_pass(parallel, model, batch, number, gate)
            if is_last:
                parallel.finish()
            gate(first_gate(number) + END)
        told["gradients"].append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        descend(model, inputs["rate"])
        told["parameters"].append([p.detach().clone() for p in model.parameters()])
    return told


def one_pass(
    parallel: Callable[..., torch.Tensor], model: Model, batch: dict[str, Any], number: int, gate: PassGate
) -> None:
    """Forward and backward for one batch."""
    model.number_gates(number)
    gate(first_gate(number) + BEGIN)
    loss = torch.nn.functional.mse_loss(parallel(batch["x"], batch["uses_extra"]), batch["y"])
    gate(first_gate(number) + BACKWARD)
    loss.backward()


def descend(model: Model, rate: float) -> None:
    """A step of gradient descent; then there are no gradients."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data -= rate * parameter.grad
        parameter.grad = None
