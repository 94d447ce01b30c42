"""A collective writes into its tensor, and autograd does not see it. This says so where it matters.

    loss = f(w)              autograd notes how loss came about
    all_reduce(comm, loss)   loss holds the sum over all ranks; autograd still has this rank's part of it
    loss.backward()          so w.grad is the gradient of this rank's part

torch.distributed's own collectives warn in such a backward pass, too. It is no mistake in one place: where all ranks
go on to compute the same from the sum, as behind a row-parallel layer, the gradient of the sum is that of each part. So
this is a warning, but an error where the backward pass begins at the tensor: that is a loss which shows one
thing and has the gradients of another.

Nothing is said of a tensor that no backward pass goes through, such as a loss that is added up after its own, nor of a
call under torch.no_grad.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from functools import partial
from types import FrameType
from typing import Any

import torch

_PASSES_ON = True  # torch calls here in a backward pass: it is no call of the library by whoever began that

_LIBRARIES = ("distlib", "torch")
_BEGINS = {torch.autograd.backward.__code__: "tensors", torch.autograd.grad.__code__: "outputs"}  # what begins a pass
_warned: dict[Any, Any] = {}  # by which `warnings` knows the places that it has warned of


def watch_backward(name: str, tensor: torch.Tensor) -> None:
    """Have a backward pass through `tensor` warn, or fail, because the collective `name` writes into it."""
    if torch.is_grad_enabled() and tensor.grad_fn is not None:  # in this order: a view made without grad may have none
        frame = _calling_frame()
        tensor.register_hook(partial(_on_gradient, weakref.ref(tensor), name, frame.f_code.co_filename, frame.f_lineno))


def _calling_frame() -> FrameType:
    """The frame that called the library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    return frame or sys._getframe(1)


def _begins_at(tensor: torch.Tensor | None) -> bool:
    """Whether a backward pass that is under way begins at this very tensor. A GPU's has a thread of its own."""
    for frame in sys._current_frames().values():
        above: FrameType | None = frame
        while above is not None:
            name = _BEGINS.get(above.f_code)
            roots = above.f_locals[name] if name is not None else ()
            if any(root is tensor for root in ([roots] if isinstance(roots, torch.Tensor) else roots)):
                return True
            above = above.f_back
    return False


def _on_gradient(reduced: weakref.ref[torch.Tensor], name: str, file: str, line: int, gradient: torch.Tensor) -> None:
    """Called by torch in a backward pass, with the gradient of the tensor that was reduced."""
    is_one = gradient.numel() == 1 and not gradient.is_meta and gradient.item() == 1
    if is_one and _begins_at(reduced()):  # a loss that is the sum of this and others has a gradient of 1 for it, too
        raise RuntimeError(
            f"backward() begins at a number that {name} has written into (line {line} of its file or cell). It shows "
            f"the value of all ranks, but its gradient would be that of this rank's own part. Call backward() on the "
            f"loss as this rank has computed it, and average the gradients afterwards. To show the loss of all ranks, "
            f"use a copy: total = loss.detach().clone(); {name}(comm, total)"
        )
    warnings.warn_explicit(
        f"a backward pass goes through a tensor that {name} has written into. autograd does not see what came from "
        f"other ranks: the gradients are those of this rank's own part. Reduce a copy, tensor.detach().clone(), or "
        f"write a torch.autograd.Function; if this is what you want, call {name} under torch.no_grad().",
        UserWarning,
        file,
        line,
        registry=_warned,
    )
