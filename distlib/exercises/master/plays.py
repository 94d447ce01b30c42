"""The stages of DataParallel, one by one, and a whole step: what each rank brings, and what it has afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

IMPORTED_LATE = ("torch.fx.experimental.symbolic_shapes",)  # by backward, once it is given a gradient


def split(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, batch)`.

    Args:
        inputs: "batch": of this rank. Only that of rank 0 counts.

    Returns:
        "part": what was returned; "batch": afterwards.
    """
    batch = inputs["batch"].clone()
    return {"part": function(comm, batch), "batch": batch}


def copy_model(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, model)`.

    Args:
        inputs: "parameters" and "buffers" of this rank's model: "layer.name" to tensor; "frozen": names of parameters.

    Returns:
        "tensors": by name, afterwards; "memory": what is in the memory that they had at first; "trained": the names of
        those that require a gradient.
    """
    model = torch.nn.Module()
    for name, tensor in inputs["parameters"].items():
        parameter = torch.nn.Parameter(tensor.clone(), requires_grad=name not in inputs["frozen"])
        _layer(model, name).register_parameter(name.partition(".")[2], parameter)
    for name, tensor in inputs["buffers"].items():
        _layer(model, name).register_buffer(name.partition(".")[2], tensor.clone(), persistent="passing" not in name)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    memory = {name: tensor.detach() for name, tensor in tensors.items()}
    function(comm, model)
    trained = [name for name, tensor in tensors.items() if tensor.requires_grad]
    return {"tensors": tensors, "memory": memory, "trained": trained}


def _layer(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """The layer of the model that a tensor belongs to, made if it is not there."""
    layer = name.partition(".")[0]
    if layer not in dict(model.named_children()):
        model.add_module(layer, torch.nn.Module())
    return model.get_submodule(layer)


def collect(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, output, batch_size)`.

    Args:
        inputs: "output" of this rank, and "batch_size". A floating-point output has a history, as that of a model has.

    Returns:
        "outputs": what was returned; "has_history": whether that has one; "output": afterwards; "keeps_history":
        whether output still has one.
    """
    output = inputs["output"].clone()
    if output.is_floating_point():
        output = output.requires_grad_() * 1
    outputs = function(comm, output, inputs["batch_size"])
    has_history = isinstance(outputs, torch.Tensor) and outputs.grad_fn is not None
    told = {"outputs": outputs, "has_history": has_history}
    return {**told, "output": output, "keeps_history": output.grad_fn is not None}


FORWARD, BACKWARD, LOSS = range(3)  # gates


class GatedClassifier(torch.nn.Module):
    """Two linear layers, and between them a gate that belongs to the rank: nobody else can do its work.

    forward     first ──► tanh ──► gate FORWARD, with these values ──► last
    backward    first ◄── tanh ◄── gate BACKWARD, with the gradient ◄── last

    Either gate multiplies by a factor of its own, and the judge has what it was passed with.

    Args:
        state: "first.weight" [hidden, pixels], "last.weight" [numbers, hidden], and the buffer "offset" [hidden]. The
            model also has those of the following that are there: "first.bias", "last.bias", "scale" [] of the outputs,
            "mask" of an image's pixels, and the buffer "mean", which has an image's shape, too.
        gate: of the play.
        frozen: names of parameters that need no gradient.
        shape: of the numbers that it makes of an image; by default they stand in a row.
    """

    mask: torch.nn.Parameter | None
    scale: torch.nn.Parameter | None
    mean: torch.Tensor | None

    def __init__(
        self,
        state: Mapping[str, torch.Tensor],
        gate: PassGate,
        frozen: Sequence[str] = (),
        shape: Sequence[int] = (-1,),
    ) -> None:
        super().__init__()
        (hidden, pixels), numbers = state["first.weight"].shape, len(state["last.weight"])
        dtypes = [state[f"{name}.weight"].dtype for name in ("first", "last")]
        self.first = torch.nn.Linear(pixels, hidden, bias="first.bias" in state, dtype=dtypes[0])
        self.last = torch.nn.Linear(hidden, numbers, bias="last.bias" in state, dtype=dtypes[1])
        for name in ("mask", "scale"):
            self.register_parameter(name, torch.nn.Parameter(state[name].clone()) if name in state else None)
        for name in ("offset", "mean"):
            self.register_buffer(name, state[name].clone() if name in state else None)
        self.load_state_dict(dict(state))
        self._gate, self._shape = gate, shape
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name not in frozen)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs [rows, *shape] of images [rows, …] of any dtype, in that of the last layer."""
        images = images.to(self.first.weight.dtype)
        if self.mean is not None:
            images = images - self.mean
        if self.mask is not None:
            images = images * self.mask
        hidden = torch.tanh(self.first(images.flatten(1)) + self.offset)
        passed: torch.Tensor = _Through.apply(hidden, self._gate)
        outputs: torch.Tensor = self.last(passed.to(self.last.weight.dtype)).reshape(len(images), *self._shape)
        return outputs if self.scale is None else outputs * self.scale


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, gate: PassGate) -> torch.Tensor:
        ctx.gate, ctx.factor = gate, gate(FORWARD, values)
        return values * ctx.factor

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] * ctx.factor * ctx.gate(BACKWARD, gradients[0]), None


def loss_of(kind: str, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """A loss of the whole batch: the "mean" over its images, the "sum", or one in which they look at each other.

    Each number of an image's output is a class. A single one stands for class 1, against class 0.

    Args:
        outputs: [B, …].
        labels: [B].
    """
    outputs = torch.stack([-outputs, outputs], 1) if outputs.dim() == 1 else outputs.flatten(1)
    if kind == "joint":
        outputs = outputs - outputs.mean(dim=0)
    reduction = "sum" if kind == "sum" else "mean"
    return torch.nn.functional.cross_entropy(outputs, labels, reduction=reduction)


def one_step(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, model, images, labels, loss_function)`.

    Args:
        inputs: "state", "frozen", and "shape" of a GatedClassifier, "images" [B, …], "labels" [B], "loss": its kind;
            "earlier": whether the parameters have a gradient from before.

    Returns:
        "returned"; "gradients" and "state" by name, afterwards. Each call of the loss passes gate LOSS.
    """

    def loss_function(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        gate(LOSS, outputs)
        return loss_of(inputs["loss"], outputs, labels)

    model = GatedClassifier(inputs["state"], gate, inputs["frozen"], inputs["shape"])
    if inputs["earlier"]:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    returned = function(comm, model, inputs["images"], inputs["labels"], loss_function)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"returned": returned, "gradients": gradients, "state": dict(model.state_dict())}
