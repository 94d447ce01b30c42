"""Four operators in pairs: what one does forward, its partner does backward.

    operator           forward          backward         stands
    copy_to_ranks      nothing          all-reduce       before layers that are cut: all ranks use the same input, so
                                                         its gradient is the sum of what each of them finds
    sum_over_ranks     all-reduce       nothing          after them: each has a part of the sum

    gather_sequence    all-gather       reduce-scatter   the same two places, where between them each rank has only a
    scatter_sum        reduce-scatter   all-gather       part of the sequence (sequence parallelism)

Shoeybi et al. call the first two f and g (arXiv:1909.08053, figure 3); V. Korthikanti et al., "Reducing Activation
Recomputation in Large Transformer Models", arXiv:2205.05198 (2022), section 4.2.2, call the others g and ḡ.

Cost for an activation of S bytes on N ranks, by a ring: an all-reduce sends 2(N−1)/N·S per rank, in 2(N−1) messages. A
reduce-scatter and an all-gather send half of that each, so both pairs send the same. What sequence parallelism saves is
memory: between the pairs a rank keeps S/N.

All of them communicate inside `backward`, so a SimulatedWorld takes contexts="threads".
"""

from __future__ import annotations

from typing import Any

import torch

from distlib.arguments import checked
from distlib.collectives import all_gather, all_reduce, reduce_scatter
from distlib.communicator import Communicator
from distlib.training.tensor_parallel.shares import own_range


@checked
def copy_to_ranks(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor; backward, the sum of the ranks' gradients. Any shape, equal on all ranks."""
    return _Copy.apply(comm, tensor)


@checked
def sum_over_ranks(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """The sum of the ranks' tensors, on every rank; backward, the same gradient. Any shape."""
    return _Sum.apply(comm, tensor)


@checked
def gather_sequence(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """The whole sequence from the ranks' parts, on every rank; backward, this rank's part of the sum of the gradients.

    Args:
        tensor: [batch, sequence / ranks, features]. Returns [batch, sequence, features].
    """
    return _Gather.apply(comm, tensor)


@checked
def scatter_sum(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of the sum of the ranks' sequences; backward, the whole gradient from the ranks' parts.

    Args:
        tensor: [batch, sequence, features]. Returns [batch, sequence / ranks, features].

    Raises:
        ValueError: the ranks do not divide the sequence.
    """
    return _ScatterSum.apply(comm, tensor)


@checked
def split_sequence(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a sequence that every rank has. [batch, sequence, …] → [batch, sequence / ranks, …].

    Raises:
        ValueError: the ranks do not divide the sequence.
    """
    return tensor[:, own_range(comm, "positions in the sequence", tensor.shape[1])]


# ── the messages ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _summed(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    all_reduce(comm, total)
    return total


def _gathered(comm: Communicator, part: torch.Tensor) -> torch.Tensor:
    """The sequence comes first in the buffer, so that each rank's part is one piece of it."""
    batch, length, *rest = part.shape
    whole = part.new_empty(length * comm.world_size, batch, *rest)
    whole[comm.rank * length : (comm.rank + 1) * length] = part.transpose(0, 1)
    all_gather(comm, whole)
    return whole.transpose(0, 1).contiguous()


def _scattered(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    own = own_range(comm, "positions in the sequence", tensor.shape[1])
    whole = tensor.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    reduce_scatter(comm, whole)
    return whole[own].transpose(0, 1).contiguous()


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, _summed(ctx.comm, gradients[0])


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        return _summed(comm, tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, gradients[0]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        return _gathered(comm, tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, _scattered(ctx.comm, gradients[0])


class _ScatterSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        return _scattered(comm, tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, _gathered(ctx.comm, gradients[0])
