"""Optimizers whose states are cut, and gradients that are cut: what comes out of them, and which bytes stay alive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.checks.plays.bytes_alive import LiveBytes
from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # ranks are threads, since torch shows the operations of a thread


class TwoStates:
    """A small optimizer like those of torch.optim, with a mean and a mean square for each number.

    Args:
        tensors: which it changes.

    Attributes:
        param_groups, state: as of an optimizer of torch.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.param_groups = [{"params": list(tensors)}]
        self.state: dict[torch.Tensor, dict[str, torch.Tensor]] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for tensor in self.param_groups[0]["params"]:
            tensor.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change each tensor that has a gradient. Element by element."""
        for tensor in self.param_groups[0]["params"]:
            if tensor.grad is not None:
                states = self.state.setdefault(tensor, {})
                mean = states.setdefault("mean", torch.zeros_like(tensor))
                square = states.setdefault("square", torch.zeros_like(tensor))
                mean.lerp_(tensor.grad, 0.3)
                square.lerp_(tensor.grad.square(), 0.1)
                tensor -= 0.05 * mean / (square.sqrt() + 0.1)


class _Maker:
    """make_optimizer: it notes what it is called for ("made": by call, the lengths of the tensors)."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []
        self._optimizers: list[TwoStates] = []

    def __call__(self, tensors: Any) -> TwoStates:
        if isinstance(tensors, torch.Tensor) or not all(isinstance(each, torch.Tensor) for each in tensors):
            raise TypeError("make_optimizer expected a list of tensors, as in make_optimizer([tensor])")
        optimizer = TwoStates(list(tensors))
        self.made.append([each.numel() for each in optimizer.param_groups[0]["params"]])
        self._optimizers.append(optimizer)
        return optimizer

    @property
    def states(self) -> int:
        """How many numbers have states."""
        every = [states["mean"] for optimizer in self._optimizers for states in optimizer.state.values()]
        return sum(each.numel() for each in every)


def optimize(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Make `function(comm, parameters, make_optimizer)` and take some steps.

    Args:
        inputs: "sets": for each optimizer "parameters", and for each step this rank's shard ("gradients"). Several
            optimizers are made first, and then make their steps in turn. "most": the bytes that may be alive.

    Returns:
        By optimizer "values", after each step the parameters, and "ends": "made" and "states" of its `_Maker`. And
        "alive": the bytes after the last step.
    """
    parameters = [[torch.nn.Parameter(each.clone()) for each in one["parameters"]] for one in inputs["sets"]]
    gradients = [list(one["gradients"]) for one in inputs["sets"]]
    makers = [_Maker() for _ in parameters]
    values: list[list[list[torch.Tensor]]] = [[] for _ in parameters]
    with LiveBytes(each for one in parameters for each in one) as live:
        optimizers = [function(comm, list(one), maker) for one, maker in zip(parameters, makers, strict=True)]
        for step in range(len(gradients[0])):
            for optimizer, own, told, given in zip(optimizers, parameters, values, gradients, strict=True):
                optimizer.step(given[step].clone())
                told.append(_values(own))
        comm.barrier()  # no message is under way any more
        told_bytes = sum(each.nbytes for one in values for told in one for each in told)
        alive = live.settled(inputs["most"] + told_bytes) - told_bytes
    ends = [{"made": maker.made, "states": maker.states} for maker in makers]
    return {"values": values, "ends": ends, "alive": alive}


def _values(parameters: Sequence[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [each.detach().clone() for each in parameters]


def clip(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, parameters, max_norm)` several times, with other gradients each time.

    Args:
        inputs: "parameters"; by call: "gradients" of the parameters, and "max_norm". "most": the bytes that may be
            alive after a call, without the parameters' own.

    Returns:
        "parameters" as they are at the end, and "calls": of each the "shard", the bytes of all the memory that it holds
        ("held"), the "norm", which parameters still have a gradient ("left"), and the bytes that are "alive", again
        without the parameters' own.
    """
    parameters = [torch.nn.Parameter(each.clone()) for each in inputs["parameters"]]
    calls = [
        _one_call(comm, function, parameters, *given, inputs["most"])
        for given in zip(inputs["gradients"], inputs["max_norm"], strict=True)
    ]
    return {"parameters": parameters, "calls": calls}


def _one_call(
    comm: Communicator,
    function: Callable[..., Any],
    parameters: Sequence[torch.nn.Parameter],
    gradients: Sequence[torch.Tensor],
    max_norm: float,
    most: int,
) -> dict[str, Any]:
    with LiveBytes() as live:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        returned = function(comm, list(parameters), max_norm)
        if not (isinstance(returned, tuple | list) and len(returned) == 2 and isinstance(returned[0], torch.Tensor)):
            raise TypeError("expected `return shard, norm`: a tensor and a number")
        shard, norm = returned
        del returned
        comm.barrier()  # no message is under way any more
        alive = live.settled(most)
    return {
        "shard": shard.detach().clone(),
        "held": shard.untyped_storage().nbytes(),
        "norm": norm.detach().clone() if isinstance(norm, torch.Tensor) else norm,
        "left": [number for number, parameter in enumerate(parameters) if parameter.grad is not None],
        "alive": alive,
    }
