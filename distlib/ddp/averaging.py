"""Averaging gradients after the backward pass: three ways that give the same numbers with different messages.

    one all-reduce a parameter    p parameters: p all-reduces, many of them tiny; each pays its rounds
    one flat buffer               1 all-reduce of M bytes; the fewest rounds, and a copy of all gradients
    buckets                       about M / bucket_bytes all-reduces; what the overlapped version starts early

With a ring over N ranks each sends 2(N−1)/N·M bytes in all three. The rounds are 2(N−1) for every all-reduce.
The fourth way, which communicates while the backward pass still runs, is in `reducer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from distlib.buckets import assign_buckets
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.ddp.bucket import Bucket
from distlib.ddp.reducer import AllReduce


def average_per_parameter(comm: Communicator, module: nn.Module, sum_up: AllReduce = all_reduce) -> None:
    """Average the gradients of all ranks, in place, with one all-reduce a parameter.

    A parameter without a gradient is left out; that must be so on all ranks or on none.

    Args:
        module: the same on every rank, each with its own gradients.
        sum_up: an all-reduce of `distlib.collectives`, or one of your own.
    """
    for parameter in module.parameters():
        if parameter.grad is not None:
            sum_up(comm, parameter.grad)
            parameter.grad /= comm.world_size


def average_flat(comm: Communicator, module: nn.Module, sum_up: AllReduce = all_reduce) -> None:
    """As `average_per_parameter`, with one all-reduce of all gradients put together; one for each dtype."""
    _average_in(comm, module, lambda sizes: max(1, sum(sizes)), sum_up)


def average_buckets(
    comm: Communicator, module: nn.Module, bucket_bytes: int = 25 << 20, sum_up: AllReduce = all_reduce
) -> None:
    """As `average_per_parameter`, with one all-reduce for each bucket of about `bucket_bytes` bytes."""
    _average_in(comm, module, lambda sizes: bucket_bytes, sum_up)


def _average_in(
    comm: Communicator, module: nn.Module, limit: Callable[[Sequence[int]], int], sum_up: AllReduce
) -> None:
    parameters = [parameter for parameter in module.parameters() if parameter.grad is not None]
    sizes = [parameter.nbytes for parameter in parameters]
    for indices in assign_buckets(sizes, limit(sizes), kinds=[parameter.dtype for parameter in parameters]):
        bucket = Bucket([parameters[index] for index in indices])
        for parameter in bucket.parameters:
            bucket.fill(parameter)
        sum_up(comm, bucket.flat)
        bucket.write_back(divide_by=comm.world_size)
