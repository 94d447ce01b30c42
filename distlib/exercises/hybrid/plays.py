"""What ranks of a mesh do around a student's functions: groups that are tried out, and stages that are cut by tp.

stage    x ──► x + W₂·tanh(W₁·x + b₁) + b₂        a rank has some rows of W₁ and b₁, and those columns of W₂
         and perhaps gains by which all of this is multiplied: one for each feature, then one for all
         the sum over the ranks of tp is taken here, forward and backward, and not by the student
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # messages are sent there
SPEAKS = ("TensorParallelStage.forward", "_Entering.backward")  # what sends messages of its own
AXES = ("dp", "pp", "tp")


# ── build_mesh ───────────────────────────────────────────────────────────────────────────────────────────────────────


def build(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, sizes)` and let the groups talk.

    Args:
        inputs: "sizes": of each axis, by name; "token": shape [1].

    Returns:
        "refused": the text of a ValueError; or "axes": the names of the groups; "ranks" and "sizes": what each group
        says of itself, by axis; "heard": by axis the tokens of its ranks, by their number in the group.
    """
    axes = list(inputs["sizes"])
    try:
        groups = function(comm, inputs["sizes"])
    except ValueError as error:
        return {"refused": str(error)}
    if not isinstance(groups, Mapping) or set(groups) != set(axes):
        return {"axes": groups}
    if not all(hasattr(group, "exchange") for group in groups.values()):
        return {"axes": groups}
    heard = {axis: _tokens(groups[axis], inputs["token"], tag) for tag, axis in enumerate(axes)}
    return {
        "axes": list(groups),
        "ranks": {axis: group.rank for axis, group in groups.items()},
        "sizes": {axis: group.world_size for axis, group in groups.items()},
        "heard": heard,
    }


def _tokens(group: Communicator, token: torch.Tensor, tag: int) -> torch.Tensor:
    """The tokens of a group's ranks, [size]: each sends its own to every other one."""
    tokens, size = torch.zeros(group.world_size, dtype=token.dtype), group.world_size
    tokens[group.rank] = token
    for shift in range(1, size):
        incoming, src = torch.empty_like(token), (group.rank - shift) % size
        group.exchange(token, (group.rank + shift) % size, incoming, src, tag)
        tokens[src] = incoming
    return tokens


# ── hybrid_step ──────────────────────────────────────────────────────────────────────────────────────────────────────


class TensorParallelStage(torch.nn.Module):
    """A stage of which this rank has its part.

    Args:
        comm: the ranks that share the stage.
        parameters: this rank's part: "up" [hidden / tp, features], "up_bias" [hidden / tp], "down" [features,
            hidden / tp], and "bias" [features], which all ranks of `comm` have; perhaps "gain_0" [features] and further
            gains [].

    Attributes:
        inputs: of all forward passes.
    """

    def __init__(self, comm: Communicator, parameters: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.up, self.up_bias, self.down, self.bias = (
            torch.nn.Parameter(parameters[name].clone()) for name in ("up", "up_bias", "down", "bias")
        )
        self._gains = [name for name in parameters if name.startswith("gain")]
        for name in self._gains:
            self.register_parameter(name, torch.nn.Parameter(parameters[name].clone()))
        self._comm = comm
        self.inputs: list[torch.Tensor] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Of [samples, features]: the same shape, the same on every rank of `comm`."""
        self.inputs.append(values.detach().clone())
        hidden = torch.tanh(torch.nn.functional.linear(_Entering.apply(values, self._comm), self.up, self.up_bias))
        whole: torch.Tensor = _Leaving.apply(torch.nn.functional.linear(hidden, self.down), self._comm)
        outputs = values + whole + self.bias
        for name in self._gains:
            outputs = outputs * self.get_parameter(name)
        return outputs


class _Entering(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, comm: Communicator) -> torch.Tensor:
        ctx.comm = comm
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _sum(ctx.comm, gradients[0]), None


class _Leaving(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, comm: Communicator) -> torch.Tensor:
        return _sum(comm, values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def _sum(comm: Communicator, values: torch.Tensor) -> torch.Tensor:
    """The sum over the ranks, in their order: to the bit the same on each."""
    parts = {comm.rank: values.contiguous()}
    for shift in range(1, comm.world_size):
        src = (comm.rank - shift) % comm.world_size
        parts[src] = torch.empty_like(parts[comm.rank])
        comm.exchange(parts[comm.rank], (comm.rank + shift) % comm.world_size, parts[src], src)
    return torch.stack([parts[rank] for rank in sorted(parts)]).sum(0)


def sum_of_squared_errors(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Over all samples and features; shape []."""
    return (outputs - targets).square().sum()


def sum_of_absolute_errors(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Over all samples and features; shape []."""
    return (outputs - targets).abs().sum()


LOSSES = {"squared error": sum_of_squared_errors, "absolute error": sum_of_absolute_errors}


def mesh_of(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    """By axis the group that this rank is in; the last axis varies fastest."""
    groups, stride = dict[str, Communicator](), comm.world_size
    for axis, size in sizes.items():
        stride //= size
        group = comm.split(comm.rank - comm.rank // stride % size * stride)
        assert group is not None
        groups[axis] = group
    return groups


def step(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(mesh, stage, inputs, targets, loss_function, global_batch_size)`.

    Args:
        inputs: "sizes": of each axis, by name; "parameters" of this rank's stage; "inputs", "targets": tensors or None
            for each microbatch; "shapes"; "loss": one of `LOSSES`; "global_batch_size"; "calls": how often it is
            called, each time with `parameter.grad` None.

    Returns:
        Of the last call, "loss": what it returned; "gradients" and "parameters" afterwards, by name; "inputs" of all
        forward passes; "given": inputs, shapes and targets afterwards; "requires_grad": whether any of them has come to
        require a gradient.
    """
    mesh = mesh_of(comm, inputs["sizes"])
    stage = TensorParallelStage(mesh["tp"], inputs["parameters"])
    given: dict[str, Any] = {"shapes": [list(shape) for shape in inputs["shapes"]]}
    for name in ("inputs", "targets"):
        given[name] = None if inputs[name] is None else [each.clone() for each in inputs[name]]
    tensors = [*(given["inputs"] or ()), *(given["targets"] or ())]
    for _ in range(inputs["calls"]):
        stage.zero_grad()
        stage.inputs.clear()
        loss = function(mesh, stage, *given.values(), LOSSES[inputs["loss"]], inputs["global_batch_size"])
    parameters = dict(stage.named_parameters())
    return {
        "loss": loss,
        "gradients": {name: parameter.grad for name, parameter in parameters.items()},
        "parameters": parameters,
        "inputs": stage.inputs,
        "given": given,
        "requires_grad": any(each.requires_grad for each in tensors),
    }


# ── clip_gradients ───────────────────────────────────────────────────────────────────────────────────────────────────


def clip(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(mesh, sharded, replicated, max_norm)`.

    Args:
        inputs: "sizes": of each axis, by name; "sharded", "replicated": gradients of this rank; "max_norm".

    Returns:
        "norm": what it returned; "sharded" and "replicated" afterwards.
    """
    gradients = {name: [each.clone() for each in inputs[name]] for name in ("sharded", "replicated")}
    norm = function(mesh_of(comm, inputs["sizes"]), *(list(own) for own in gradients.values()), inputs["max_norm"])
    return {"norm": norm, **gradients}
