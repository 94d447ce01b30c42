"""The norm of all gradients of a model that is spread over a mesh. Each number of the model counts once.

    along    who has what                                       what counts
    tp       parts of what is cut; copies of norms and biases   every part; of the copies those of index 0
    pp       stages; a copy of what two stages share            every stage; of shared weights the first stage's
    dp       copies of all gradients                            each rank's own: they are equal, nothing is sent
    dp       shards, from ZeRO stage 1 on                       every shard

    norm = √(Σ g²), summed up along tp, then along pp, then (shards) along dp: one number each

A rank that counted everything it has would get another norm for each mesh, and each mesh would train another model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from distlib.arguments import check_number
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.zero.gradient_norm import scale_gradients

Counted = Sequence[tuple[nn.Parameter, torch.Tensor | float]]
"""Parameters or shards of one rank, each with what counts of it: 1, 0, or a tensor of ones and zeros."""


@torch.no_grad()
def norm_over_groups(groups: Sequence[Communicator], counted: Counted) -> float:
    """The 2-norm of what counts of all gradients. Every rank of every group calls it. No gradient counts as zero.

    Args:
        groups: along which the squares are added up, one group after the other.
    """
    squares = torch.zeros(1, dtype=torch.float64, device=groups[0].device)
    for parameter, weight in counted:
        if parameter.grad is not None:
            squares += (parameter.grad.double().square() * weight).sum()
    for group in groups:
        all_reduce(group.within("all_reduce of squared gradients"), squares)
    return float(squares.sqrt())


@torch.no_grad()
def clip_over_groups(groups: Sequence[Communicator], counted: Counted, max_norm: float) -> float:
    """Scale the gradients, in place, so that their norm over the whole mesh is at most `max_norm`.

    The factor is max_norm / (norm + 10⁻⁶), as in torch.nn.utils.clip_grad_norm_, where that is below 1.

    Returns:
        The norm before, the same on every rank.

    Raises:
        ValueError: `max_norm` is not above 0.
    """
    check_number("clip_over_groups", "max_norm", max_norm, above=0)
    norm = norm_over_groups(groups, counted)
    scale_gradients((parameter for parameter, _ in counted), norm, max_norm)
    return norm
