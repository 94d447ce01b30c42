"""A model with a gate in it: gradients from many microbatches, and rounds of local SGD.

    x ──► running ──► layer 0 ──► tanh ──► gate ──► layer 1 ──► (tanh ──► layer 2 …) ──► (loss)

`running` has two buffers, or more: floating-point numbers that move with its input, and a count of its forward passes.
Each forward pass passes a gate of its own, FORWARD + k; the gate in its backward pass is k: the number of the forward
pass, or of the microbatch that went forward, where the model knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from distlib.checks.plays.gated import Gate, PassGate
from distlib.checks.plays.layers import RunningMean, linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # time passes there, and messages may be sent

FORWARD = 1000
SECONDS = 0.01  # virtual time of a backward pass
MOMENTUM = 0.5


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """The virtual time of gate k."""
    return SECONDS if k < FORWARD else 0.0


class GatedLayers(torch.nn.Module):
    """The model of both plays.

    Args:
        state: "layers": weight and bias of each, two or more; "mean", "count", "more": the buffers, None without them;
            "frozen": whether the bias of layer 0 is not trained.
        gate: of the case.
        expected: inputs of microbatches, by their numbers: in whatever order they come, a microbatch has its own gate.
            What is none of them gets the first number that is left.

    Attributes:
        modes: for each forward pass, whether the model was in training mode.
    """

    def __init__(self, state: dict[str, Any], gate: PassGate, expected: Sequence[torch.Tensor] = ()) -> None:
        super().__init__()
        self.running = None if state["mean"] is None else RunningMean(state["mean"], state["count"], state["more"])
        self.layers = torch.nn.ModuleList(linear(weight, bias) for weight, bias in state["layers"])
        self.layers[0].bias.requires_grad_(not state["frozen"])
        self._gate, self.modes = gate, list[bool]()
        self._gates = [Gate(gate, 0)]
        self._left = {k: inputs.clone() for k, inputs in enumerate(expected)}

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, classes]."""
        self._gates[0].k = k = self._number(values)
        self._gate(FORWARD + k)
        self.modes.append(self.training)
        values = values.flatten(1)
        if self.running is not None:
            values = self.running(values)
        hidden: torch.Tensor = self._gates[0](torch.tanh(self.layers[0](values)))
        for layer in self.layers[1:-1]:
            hidden = torch.tanh(layer(hidden))
        outputs: torch.Tensor = self.layers[-1](hidden)
        return outputs

    def _number(self, values: torch.Tensor) -> int:
        known = (k for k, inputs in self._left.items() if inputs.shape == values.shape and torch.equal(inputs, values))
        k = next(known, next(iter(self._left), len(self.modes)))
        self._left.pop(k, None)
        return k


class MomentumDescent:
    """Gradient descent with momentum; used as an optimizer of torch's, which takes seconds to be imported."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], rate: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": rate}]
        self.state: dict[torch.nn.Parameter, dict[str, torch.Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters, in place. `closure` computes the gradients first; what it returns is returned."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                state = self.state.setdefault(parameter, {"momentum_buffer": torch.zeros_like(parameter)})
                state["momentum_buffer"].mul_(MOMENTUM).add_(parameter.grad)
                parameter.add_(state["momentum_buffer"], alpha=-self.param_groups[0]["lr"])
        return loss


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
            all ranks; "old": the gradients that trained parameters have already, by name.

    Returns:
        "gradients", "parameters": afterwards, by name; "training": whether the model was in training mode, always.
    """
    model = GatedLayers(inputs["state"], gate, [each for each, _ in inputs["microbatches"]])
    leave_gradients(model, inputs["old"])
    function(comm, model, LOSSES[inputs["loss"]], inputs["microbatches"], inputs["total"])
    named = dict(model.named_parameters())
    gradients = {name: parameter.grad for name, parameter in named.items()}
    return {"gradients": gradients, "parameters": named, "training": all([*model.modes, model.training])}


def local_rounds(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, model, loss_function, batches, optimizer)` for each round.

    Args:
        inputs: as of `accumulate`, but "batches": a list of them for each round, and "rate".

    Returns:
        "rounds": after each round, parameters and buffers by name; "training": as of `accumulate`.
    """
    model = GatedLayers(inputs["state"], gate)
    leave_gradients(model, inputs["old"])
    optimizer = MomentumDescent(model.parameters(), inputs["rate"])
    rounds = []
    for batches in inputs["batches"]:
        function(comm, model, LOSSES[inputs["loss"]], batches, optimizer)
        named = [*model.named_parameters(), *model.named_buffers()]
        rounds.append({name: tensor.detach().clone() for name, tensor in named})
    return {"rounds": rounds, "training": all([*model.modes, model.training])}


def leave_gradients(model: torch.nn.Module, old: dict[str, torch.Tensor]) -> None:
    """Give parameters gradients, by name, as a step before may have left them."""
    for name, gradient in old.items():
        model.get_parameter(name).grad = gradient.clone()
