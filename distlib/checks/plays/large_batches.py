"""A model with a gate in it: gradients from many microbatches, and rounds of local SGD.

    x ──► running ──► layer 0 ──► tanh ──► gate ──► layer 1 ──► (loss)

`running` has two buffers: floating-point numbers that move towards the mean of its input, and a count of its forward
passes. Each forward pass passes a gate of its own, FORWARD + k; the gate in its backward pass is k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from distlib.checks.plays.gated import Gate, PassGate
from distlib.checks.plays.layers import Running, linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # time passes there, and messages may be sent

FORWARD = 1000
SECONDS = 0.01  # virtual time of a backward pass
MOMENTUM = 0.5


class Model(torch.nn.Module):
    """The model of both scenarios.

    Args:
        state: "layers": weight and bias of each; "mean", "count": the buffers, None without them; "frozen": whether the
            bias of layer 0 is not trained.
        gate: of the scenario.
    """

    def __init__(self, state: dict[str, Any], gate: PassGate) -> None:
        super().__init__()
        self.running = None if state["mean"] is None else Running(state["mean"], state["count"])
        self.layers = torch.nn.ModuleList(linear(weight, bias) for weight, bias in state["layers"])
        self.layers[0].bias.requires_grad_(not state["frozen"])
        self._gate, self._passes = gate, 0
        self._gates = [Gate(gate, 0, SECONDS)]

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, classes]."""
        self._gate(FORWARD + self._passes)
        self._gates[0].k = self._passes
        self._passes += 1
        if self.running is not None:
            values = self.running(values)
        hidden: torch.Tensor = self._gates[0](torch.tanh(self.layers[0](values)))
        outputs: torch.Tensor = self.layers[1](hidden)
        return outputs


class Descent:
    """Gradient descent with momentum; used as an optimizer of torch's, which takes seconds to be imported."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": rate}]
        self._speed: dict[int, torch.Tensor] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None if set_to_none else torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters, in place."""
        for number, parameter in enumerate(self.param_groups[0]["params"]):
            if parameter.grad is not None:
                self._speed[number] = MOMENTUM * self._speed.get(number, 0.0) + parameter.grad
                parameter -= self.param_groups[0]["lr"] * self._speed[number]


def cross_entropies(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One loss for each sample; targets: classes."""
    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")


def squared_errors(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One loss for each sample; targets: what the first output should be."""
    return (outputs[:, 0] - targets) ** 2


LOSSES = {"cross_entropy": cross_entropies, "squared": squared_errors}


def accumulate(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, model, loss_function, microbatches, global_batch_size)` once.

    Args:
        inputs: "state" of the model; "loss": a name in LOSSES; "microbatches": pairs of tensors; "total": samples of
            all ranks; "old": a gradient for each trained parameter that stands there already.

    Returns:
        "gradients", "parameters": afterwards, by parameter.
    """
    model = Model(inputs["state"], gate)
    leave_gradients(model, inputs["old"])
    microbatches = [(x, y) for x, y in inputs["microbatches"]]
    function(comm, model, LOSSES[inputs["loss"]], microbatches, inputs["total"])
    parameters = list(model.parameters())
    return {"gradients": [p.grad for p in parameters], "parameters": parameters}


def local_rounds(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, model, loss_function, batches, optimizer)` for each round.

    Args:
        inputs: as of `accumulate`, but "rounds": the batches of each round, and "rate".

    Returns:
        "rounds": after each round, "parameters" and "buffers" by name.
    """
    model = Model(inputs["state"], gate)
    leave_gradients(model, inputs["old"])
    optimizer = Descent(model.parameters(), inputs["rate"])
    told = []
    for batches in inputs["rounds"]:
        function(comm, model, LOSSES[inputs["loss"]], [(x, y) for x, y in batches], optimizer)
        told.append(tensors_of(model))
    return {"rounds": told}


def leave_gradients(model: torch.nn.Module, old: list[torch.Tensor]) -> None:
    """Give the trained parameters gradients, as a step before may have left them."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter, gradient in zip(trained, old, strict=True):
        parameter.grad = gradient.clone()


def tensors_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of parameters and buffers, by name."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}
