"""A layer that is cut: a student's class or function reads its share from a file, and goes forward and backward.

    file of rank 1     ▒▒▒▒▒▒▒▒     its share is what the layer consists of; what lies outside of it is any numbers,
                       ████████     different ones in the file of each rank. So no rank can know another one's share.
                       ▒▒▒▒▒▒▒▒

A play notes what was read, how large a tensor is kept for the backward pass, and all values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # messages are sent there


class Stored:
    """A tensor in a file: an index reads a part of it, as a copy.

    Args:
        values: of the whole.
        is_trained: whether the copies are part of torch's graph, so that `values.grad` gets their gradients.

    Attributes:
        shape: of the whole.
        dtype: of the whole.
        values: the whole.
        read: which elements have been read; bool, of the same shape.
    """

    def __init__(self, values: torch.Tensor, is_trained: bool = False) -> None:
        self.values, self.shape, self.dtype = values.clone().requires_grad_(is_trained), values.shape, values.dtype
        self.read = torch.zeros(values.shape, dtype=torch.bool)

    def __getitem__(self, index: Any) -> torch.Tensor:
        self.read[index] = True
        return self.values[index].clone()

    def __len__(self) -> int:
        return len(self.values)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one length of it, as torch.Tensor.size says it."""
        return self.shape if dim is None else self.shape[dim]


def linear_layer(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Make `function(comm, weight, bias)`, a module, and use it.

    Args:
        inputs: "weight" and "bias" (or None) of this rank's file, and what `_Passes` takes. Where there is "other",
            another such file, two more layers are made of it, one before and one after, and not used.

    Returns:
        {"refused": the text of a ValueError, "read": as below}, or of each stored tensor what was "read", of each
        parameter and buffer the values ("held") and "gradients", and what `_Passes` has noted. A parameter that can be
        had as layer.weight has this name, wherever in the layer it lies.
    """
    files = _files(inputs, ("weight", "bias"))
    other = inputs.get("other")
    others = [function(comm, *_files(other, ("weight", "bias")).values())] if other else []
    try:
        layer = function(comm, files["weight"], files.get("bias"))
    except ValueError as error:
        return {"refused": str(error), "read": _read(files)}
    others += [function(comm, *_files(other, ("weight", "bias")).values())] if other else []
    passes = _Passes(inputs)
    passes.go(layer)
    held = _held(layer)
    gradients = {name: tensor.grad for name, tensor in held.items()}
    return {"read": _read(files), "held": held, "gradients": gradients, **passes.noted()}


def attention(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, batch, qkv_weight, output_weight, heads)` for each batch.

    Args:
        inputs: "qkv_weight" and "output_weight" of this rank's file, "heads", and what `_Passes` takes. Where there is
            "other", another such file, the function is called with it once before, without gradients.

    Returns:
        {"refused": the text of a ValueError, "read": as below}, or of each stored tensor what was "read", its gradient
        ("gradients"), and what `_Passes` has noted.
    """
    names = ("qkv_weight", "output_weight")
    files, passes = _files(inputs, names, is_trained=True), _Passes(inputs)
    try:
        if inputs.get("other"):
            with torch.no_grad():
                function(comm, inputs["batches"][0].clone(), *_files(inputs["other"], names).values(), inputs["heads"])
        passes.go(lambda batch: function(comm, batch, *files.values(), inputs["heads"]))
    except ValueError as error:
        return {"refused": str(error), "read": _read(files)}
    gradients = {name: file.values.grad for name, file in files.items()}
    return {"read": _read(files), "gradients": gradients, **passes.noted()}


def vocabulary_loss(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, logits, targets, first)` for each batch.

    Args:
        inputs: "targets" by batch; "first", this rank's first token; and what `_Passes` takes.

    Returns:
        "targets" as they are afterwards; "made", the shapes of what was computed in the forward passes; and what
        `_Passes` has noted; "outputs" are the losses.
    """
    passes, targets, shapes = _Passes(inputs), [each.clone() for each in inputs["targets"]], _Shapes()
    left = iter(targets)
    with shapes:
        passes.go(lambda batch: function(comm, batch, next(left), inputs["first"]))
    return {"targets": targets, "made": sorted(map(list, shapes.seen)), **passes.noted()}


class _Shapes(TorchFunctionMode):
    """Notes the shapes of all matrices that calls of torch return meanwhile, in the graph or out of it ("seen")."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, ...]] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        every = result if isinstance(result, tuple | list) else [result]
        self.seen |= {tuple(each.shape) for each in every if isinstance(each, torch.Tensor) and each.dim() > 1}
        return result


def _files(inputs: dict[str, Any], names: Sequence[str], is_trained: bool = False) -> dict[str, Any]:
    """A file of each name; where there is no tensor, None under a name that is given."""
    return {name: None if inputs[name] is None else Stored(inputs[name], is_trained) for name in names}


def _held(layer: torch.nn.Module) -> dict[str, Any]:
    """Parameters and buffers by name; one that is the layer's attribute `weight` or `bias` by that name."""
    found: dict[str, Any] = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    attributes = {name: getattr(layer, name, None) for name in ("weight", "bias")}
    own = {name: value for name, value in attributes.items() if any(value is each for each in found.values())}
    rest = {name: each for name, each in found.items() if not any(each is value for value in own.values())}
    return {**own, **rest}


def _read(files: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: file.read for name, file in files.items() if file is not None}


class _Passes:
    """The forward passes of all batches, then their backward passes.

    Args:
        inputs: "batches": the input of each; "arriving": for each the gradient of its output, or none; "forward_only":
            whether there is no backward pass; "strided": whether memory is not contiguous.
    """

    def __init__(self, inputs: dict[str, Any]) -> None:
        laid_out = _strided if inputs["strided"] else torch.clone
        self._trains = not inputs["forward_only"]
        self._batches = [laid_out(each).requires_grad_(self._trains) for each in inputs["batches"]]
        self._arriving = [laid_out(each) for each in inputs["arriving"]]
        self._outputs: list[Any] = []
        self._kept_shapes: list[list[int]] = []
        self._largest = 0

    def go(self, layer: Callable[[torch.Tensor], Any]) -> None:
        """Forward, then backward where the output has the shape that it should have."""
        with nullcontext() if self._trains else torch.no_grad():
            with torch.autograd.graph.saved_tensors_hooks(self._note, lambda tensor: tensor):
                self._outputs = [_is_tensor(layer(each)) for each in self._batches]
        for output, gradient in zip(self._outputs, self._arriving, strict=self._trains):
            if output.requires_grad and output.shape == gradient.shape:
                output.backward(gradient)

    def _note(self, tensor: torch.Tensor) -> torch.Tensor:
        self._kept_shapes.append(list(tensor.shape))
        self._largest = max(self._largest, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return tensor

    def noted(self) -> dict[str, Any]:
        """By batch "outputs", "input_gradients", and "batches" and "arriving" as they are afterwards; of the tensors
        that are kept for the backward pass the shapes ("kept") and the elements of the "largest", with all its memory.
        """
        gradients: Sequence[torch.Tensor | None] = [each.grad for each in self._batches]
        return {
            "outputs": self._outputs,
            "input_gradients": gradients,
            "batches": self._batches,
            "arriving": self._arriving,
            "kept": self._kept_shapes,
            "largest": self._largest,
        }


def _is_tensor(output: Any) -> torch.Tensor:
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"the output is a {type(output).__name__}, expected a tensor")
    return output


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose memory is in another order: the last dimension's neighbors are the farthest apart."""
    backwards = tuple(reversed(range(tensor.dim())))
    return tensor.detach().permute(backwards).clone(memory_format=torch.contiguous_format).permute(backwards)
