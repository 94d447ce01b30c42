"""The norm of all gradients, when each rank has a shard of them: a sum of squares, added up over the ranks.

    rank r      s_r = Σ g²  over its own shards             padding adds zeros
    all ranks   norm = √(s_0 + s_1 + …)                     one all-reduce of one number

Each rank then scales its own shards by the same factor. The norm of its own shard alone would give each rank another
factor, and the model would no longer take a step along one gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from distlib.arguments import check_number
from distlib.collectives import all_reduce
from distlib.communicator import Communicator


@torch.no_grad()
def gradient_norm(comm: Communicator, shards: Sequence[nn.Parameter]) -> float:
    """The 2-norm of the gradients of all shards of all ranks. Shards without a gradient count as zero."""
    squares = torch.zeros(1, dtype=torch.float64, device=comm.device)
    for shard in shards:
        if shard.grad is not None:
            squares += shard.grad.double().square().sum()
    all_reduce(comm.within("all_reduce of squared gradients"), squares)
    return float(squares.sqrt())


@torch.no_grad()
def clip_gradients(comm: Communicator, shards: Sequence[nn.Parameter], max_norm: float) -> float:
    """Scale the gradients of all shards, in place, so that their norm is at most `max_norm`.

    The factor is max_norm / (norm + 10⁻⁶), as in torch.nn.utils.clip_grad_norm_, where that is below 1. If the norm is
    NaN, so are all gradients afterwards.

    Returns:
        The norm before, the same on every rank.

    Raises:
        ValueError: `max_norm` is not above 0.
    """
    check_number("clip_grad_norm", "max_norm", max_norm, above=0)
    norm = gradient_norm(comm, shards)
    scale_gradients(shards, norm, max_norm)
    return norm


@torch.no_grad()
def scale_gradients(parameters: Iterable[nn.Parameter], norm: float, max_norm: float) -> None:
    """Multiply gradients whose norm is `norm`, in place, by max_norm / (norm + 10⁻⁶), where that is below 1 or NaN."""
    factor = max_norm / (norm + 1e-6)
    if factor >= 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad *= factor
