"""A few steps of training with a student's DistributedDataParallel, with gates in the backward pass.

    x ──► running ──► layer 0 ──► gate ──► … ──► layer L-1 ──► gate ──► (extra) ──► loss

`running` has a buffer that every forward pass in training mode moves towards the mean of its input. `extra` is a
parameter that the loss may depend on, or not. Each layer has a gate of its own, with its number; no two passes have a
gate in common, because the gates of a pass are counted from its `first_gate`.

A step is some passes in no_sync, one outside of it, finish, the optimizer, and an evaluation: a forward pass alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.checks.plays.gated import Gate, PassGate
from distlib.checks.plays.layers import RunningMean, linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # time passes there, and messages may be sent

BEGIN, BACKWARD, END = 7, 8, 9  # marks: gates of a pass that are passed before forward, before backward, at the end
GATES = 10  # numbers of gates for each pass; the layers take those from 0


def first_gate(number: int) -> int:
    """The gates of pass `number` (0 is the construction) are counted from here."""
    return number * GATES


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """The virtual time of gate k: a layer's takes "seconds", a mark none."""
    return float(inputs["seconds"]) if k % GATES < BEGIN else 0.0


class Watched(RunningMean):
    """A `RunningMean` whose buffers move in training mode only, and which keeps what they were.

    Its count, if there is one, also counts numbers above 0, so that it differs from rank to rank.

    Attributes:
        seen: the numbers of all buffers at the beginning of each forward pass.
    """

    def __init__(self, start: torch.Tensor, count: torch.Tensor | None, more: Sequence[torch.Tensor]) -> None:
        super().__init__(start, count, more)
        self.seen: list[torch.Tensor] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values` minus the buffer; shape [samples, features]."""
        self.seen.append(torch.cat([buffer.reshape(-1).to(self.mean.dtype) for buffer in self.buffers()]))
        if not self.training:
            return values - self.mean
        if self.count is not None:
            self.count += (values > 0).sum()
        return super().forward(values)


class Scale(torch.nn.Module):
    """Multiplies by a parameter, which is registered after those of the layers."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.extra = torch.nn.Parameter(start.clone())

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """`values`, each feature times its factor."""
        return values * self.extra


class Model(torch.nn.Module):
    """The model of the play.

    Args:
        state: "layers": weight and bias of each; "extra"; "mean", "count", "more": the buffers: tensors; count may be
            None. "frozen": layers that are not trained; "order": the layers in the order in which values go through
            them; "tied": whether the last layer has the weight of the first; "inputs": how many it takes.
        gate: of the play.
    """

    def __init__(self, state: dict[str, Any], gate: PassGate) -> None:
        super().__init__()
        self.running = Watched(state["mean"], state["count"], state["more"])
        self.layers = torch.nn.ModuleList(linear(weight, bias) for weight, bias in state["layers"])
        self.gates = [Gate(gate, number) for number in range(len(self.layers))]
        self.scale = Scale(state["extra"])
        self.order, self._inputs = state["order"], state["inputs"]
        if state["tied"]:
            self.layers[-1].weight = self.layers[0].weight
        for number in state["frozen"]:
            self.layers[number].requires_grad_(False)

    def number_gates(self, number: int) -> None:
        """Give the gates the numbers of pass `number`."""
        for k, gate in enumerate(self.gates):
            gate.k = first_gate(number) + k

    def forward(self, values: torch.Tensor, uses_extra: bool, *more: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, features]. `more`: as many as state["inputs"] says, added to the values."""
        if 2 + len(more) != self._inputs:
            raise TypeError(f"this module takes {self._inputs} inputs, not {2 + len(more)}")
        values = self.running(sum(more, values))
        for k in self.order:
            values = self.gates[k](torch.tanh(self.layers[k](values)))
        return self.scale(values) if uses_extra else values


def train(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Make `function(comm, model, **options)` and take some steps with it. All ranks begin at the same moment.

    Args:
        inputs: "state" of the model, "seconds" of a gate, "options" of the function, "rate" of learning; "steps": for
            each the passes, "inputs" of the model and "y": the last is the evaluation, those before the last but one
            are in no_sync.

    Returns:
        "constructed": parameters and buffers after construction; "gradients" and "parameters": after each step, by
        parameter; "seen": the buffers at the beginning of each forward pass.
    """
    comm.barrier()
    model = Model(inputs["state"], gate)
    parallel = function(comm, model, **inputs["options"])
    constructed = [tensor.detach().clone() for tensor in [*model.parameters(), *model.buffers()]]
    gate(first_gate(0) + END)
    told: dict[str, Any] = {"constructed": constructed, "gradients": [], "parameters": [], "seen": model.running.seen}
    number = 0
    for *alone, shared, evaluation in inputs["steps"]:
        for batch in alone:
            number += 1
            with parallel.no_sync():
                one_pass(parallel, model, batch, number, gate)
            gate(first_gate(number) + END)
        number += 1
        one_pass(parallel, model, shared, number, gate)
        parallel.finish()
        gate(first_gate(number) + END)
        told["gradients"].append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        descend(model, inputs["rate"])
        told["parameters"].append([p.detach().clone() for p in model.parameters()])
        number += 1
        evaluate(parallel, evaluation, number, gate)
    return told


def one_pass(
    parallel: Callable[..., torch.Tensor], model: Model, batch: dict[str, Any], number: int, gate: PassGate
) -> None:
    """Forward and backward for one batch."""
    model.number_gates(number)
    gate(first_gate(number) + BEGIN)
    outputs = parallel(*batch["inputs"])
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(f"forward returned {type(outputs).__name__}, expected what the module returns")
    loss = torch.nn.functional.mse_loss(outputs, batch["y"])
    gate(first_gate(number) + BACKWARD)
    if loss.requires_grad:  # not where it depends on no parameter that is trained
        loss.backward()


def evaluate(parallel: torch.nn.Module, batch: dict[str, Any], number: int, gate: PassGate) -> None:
    """A forward pass with parallel.eval()."""
    parallel.eval()
    gate(first_gate(number) + BEGIN)
    with torch.no_grad():
        parallel(*batch["inputs"])
    gate(first_gate(number) + END)
    parallel.train()


def descend(model: Model, rate: float) -> None:
    """A step of gradient descent; then there are no gradients."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data -= rate * parameter.grad
        parameter.grad = None
