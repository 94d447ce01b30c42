"""Parameters that are parts of a whole, and torch's functions that would take a part for the whole.

    gradients of all ranks     3  4 │ 12  0          norm of all 13; of rank 0's part 5, of rank 1's 12
    clip_grad_norm_ of torch   on rank 0 divides by 5, on rank 1 by 12: no longer one gradient
    GradScaler of torch        on rank 1 finds a number that is infinite, and leaves out the step; rank 0 makes it

Neither is an error in torch, which knows nothing of the other ranks. So whoever cuts a parameter notes it here; then
the first is refused, with what to call instead, and the second one done right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp
from distlib.worlds.private_torch import found_infinite, put_around, scale_gradients_by_norm

_PASSES_ON = True  # torch's own functions come by here
_PARTS = WeakIdKeyDictionary()  # parameter → (communicator, what clips); no attribute, since a parameter can be sent


def note_part(parameter: nn.Parameter, comm: Communicator, clip_by: str) -> nn.Parameter:
    """Note that a parameter is this rank's part of something that the ranks of `comm` share; returns it.

    Args:
        clip_by: what clips the gradients of all parts together, for the message.
    """
    watch_torch()
    _PARTS[parameter] = comm, clip_by
    return parameter


@cache
def watch_torch() -> None:
    """From now on look at what torch's clip_grad_norm_ and GradScaler are given in this process."""
    put_around(*scale_gradients_by_norm, _clip)
    put_around(torch.amp.GradScaler, "unscale_", _unscale)


def _clip(scale: Callable[..., Any], parameters: Any, *args: Any, **kwargs: Any) -> Any:
    """torch has found a norm, and is about to scale the gradients of `parameters`."""
    listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    for comm, clip_by in _noted(listed):
        if comm.world_size > 1:
            raise RuntimeError(
                "torch's clip_grad_norm_ can't clip what is cut over the ranks: it would take the norm of this rank's "
                f"part for that of all gradients, and each rank would scale by another factor. Call {clip_by}."
            )
    return scale(listed, *args, **kwargs)


def _unscale(unscale: Callable[..., Any], scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    """torch divides gradients by the scale, and notes whether all are finite: here all ranks agree whether they are."""
    comms = dict.fromkeys(
        comm for comm, _ in _noted(each for group in optimizer.param_groups for each in group["params"])
    )
    if comms and hasattr(optimizer, "average_gradients"):
        optimizer.average_gradients()
    unscale(scaler, optimizer)
    for comm in comms if scaler.is_enabled() else ():
        for found in found_infinite(scaler, optimizer).values():
            number = found.reshape(1)
            all_reduce(comm.within("all_reduce of infinite gradients"), number, ReduceOp.MAX)
            found.copy_(number.reshape(()))


def _noted(parameters: Iterable[torch.Tensor]) -> list[tuple[Communicator, str]]:
    return [_PARTS[each] for each in parameters if each in _PARTS]
