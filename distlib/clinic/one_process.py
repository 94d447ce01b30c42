"""`check_against_one_process`: is the ranks' gradient that of one process which has all of their samples?

    loss(model, batch).backward()
    …                                        the ranks average their gradients
    check_against_one_process(model, loss, batch)          once: in the first step, or when something has changed
    optimizer.step()

    rank 0 ──its samples──┐                          one process          ranks
    rank 1 ──its samples──┼──► the whole batch ──►   gradient g     =?    gradient after averaging
    rank 2 ──its samples──┘

A fault that all ranks share makes them differ from nobody: their weights are equal, and all are wrong. Then one process
is all that is left to compare with. Each rank plays it here, on a copy of the model.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from distlib.clinic.replica_check import ReplicaError, gather_uneven, ranks_of
from distlib.communicator import Communicator
from distlib.worlds.diagnosis import name_ranks

Batch = torch.Tensor | Sequence[torch.Tensor]
_WHAT = "the check against one process"
_MILLIONTHS = 10**6  # a factor travels as an integer
_NONE = 0  # in place of a factor: the gradient is no multiple of the right one


def check_against_one_process(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], torch.Tensor],
    batch: Batch,
    group: Any | Communicator = None,
    *,
    tolerance: float = 1e-3,
    timeout: float = 60.0,
) -> None:
    """Check that each parameter's gradient is that of the loss of the whole batch. All ranks call it.

    It is called after the backward pass, when gradients have been averaged, and before they are clipped or used. Not
    for a model that draws random numbers, as Dropout does in training. Once is enough: all samples go to all ranks.

    Args:
        model: this rank's, with its gradients. Of a DistributedDataParallel, what it wraps is compared.
        loss: a function of (model, batch), as one process would call it: a mean over the samples.
        batch: this rank's part: one tensor, or several, each of shape (samples, …).
        group, timeout: as in `ReplicaCheck`.
        tolerance: how far a gradient may be off, as a share of the norm of the right one.

    Raises:
        ReplicaError: a parameter has another gradient, on some rank; on every rank, with the first of them, and the
            factor by which it is too large or too small, if it is a factor.
    """
    ranks = ranks_of(group, timeout)
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    alone = copy.deepcopy(inner)
    alone.zero_grad()
    parts = _everybodys(ranks, batch)
    loss(alone, _joined(parts, batch)).backward()
    rows = ranks.gather(torch.tensor(_first_other(inner, alone, tolerance)), _WHAT)
    bad = [rank for rank, (index, _) in enumerate(rows) if index >= 0]
    if bad:
        index, factor = rows[bad[0]]
        name = [name for name, _ in inner.named_parameters()][index]
        raise ReplicaError(_told(name, bad, factor / _MILLIONTHS, len(rows)))


def _first_other(inner: nn.Module, alone: nn.Module, tolerance: float) -> tuple[int, int]:
    """The first parameter whose gradient is another one, -1 if none is, and the factor, in millionths."""
    for index, (parameter, right) in enumerate(zip(inner.parameters(), alone.parameters(), strict=True)):
        got, expected = _gradient(parameter), _gradient(right)
        size = float(expected.norm())
        if float((got - expected).norm()) <= tolerance * size:
            continue
        factor = float((got * expected).sum()) / size**2 if size else 0.0
        is_factor = float((got - factor * expected).norm()) <= tolerance * abs(factor) * size
        return index, round(factor * _MILLIONTHS) if is_factor else _NONE
    return -1, _NONE


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        return torch.zeros_like(parameter, dtype=torch.float64)
    return parameter.grad.detach().to_dense().double()


def _told(name: str, bad: list[int], factor: float, size: int) -> str:
    told = f"{name} has another gradient on {name_ranks(bad)} than in one process with the whole batch"
    if factor == _NONE:
        return f"{told}. Do all ranks take part in the average, and does each sample count as much as every other?"
    told += f": {factor:.4g} times that one"
    if round(factor / size, 3) == 1:
        return f"{told}. It was summed over the {size} ranks: divide it by their number"
    if round(factor * size, 3) == 1:
        return f"{told}. It was divided by the number of ranks once too often, or not summed over them"
    return f"{told}. Is the loss a mean over the samples, on the ranks and in one process?"


# ── the whole batch ──────────────────────────────────────────────────────────────────────────────────────────────────


def _everybodys(ranks: Any, batch: Batch) -> list[list[torch.Tensor]]:
    """The tensors of all ranks, by rank. They go around as integers of 8 bytes: first how many bytes there are."""
    own = [batch] if isinstance(batch, torch.Tensor) else list(batch)
    file = io.BytesIO()
    torch.save([each.detach() for each in own], file)
    content = file.getvalue()
    padded = bytearray(content + bytes(-len(content) % 8))
    numbers = torch.cat([torch.tensor([len(content)]), torch.frombuffer(padded, dtype=torch.int64)])
    found = []
    for length, *rest in gather_uneven(ranks, numbers, _WHAT):
        theirs = torch.tensor(rest, dtype=torch.int64).numpy().tobytes()[:length]
        found.append(torch.load(io.BytesIO(theirs), map_location=own[0].device))
    return found


def _joined(parts: list[list[torch.Tensor]], batch: Batch) -> Batch:
    whole = [torch.cat(each) for each in zip(*parts, strict=True)]
    return whole[0] if isinstance(batch, torch.Tensor) else whole
