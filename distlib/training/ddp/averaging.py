"""Averaging gradients after the backward pass: three ways that give the same numbers with different messages.

    one all-reduce per parameter  p parameters: p all-reduces, many of them tiny; each pays its rounds
    one flat buffer               1 all-reduce of M bytes; the fewest rounds, and a copy of all gradients
    buckets                       about M / bucket_bytes all-reduces; what the overlapped version starts early

With a ring over N ranks each rank sends 2(N−1)/N·M bytes in all three. Every all-reduce takes 2(N−1) rounds.
The fourth way, which communicates while the backward pass still runs, is in `reducer`.
"""

from __future__ import annotations

from torch import nn

from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.ddp.bucket import make_buckets
from distlib.training.ddp.reducer import AllReduce


def average_per_parameter(comm: Communicator, module: nn.Module, sum_up: AllReduce = all_reduce) -> None:
    """Average the gradients of all ranks, in place, with one all-reduce per parameter.

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
    average_buckets(comm, module, max(1, sum(parameter.nbytes for parameter in module.parameters())), sum_up)


def average_buckets(
    comm: Communicator, module: nn.Module, bucket_bytes: int = 25 << 20, sum_up: AllReduce = all_reduce
) -> None:
    """As `average_per_parameter`, with one all-reduce for each bucket of about `bucket_bytes` bytes."""
    parameters = [parameter for parameter in module.parameters() if parameter.grad is not None]
    for bucket in make_buckets(parameters, bucket_bytes):
        for parameter in bucket.parameters:
            bucket.fill(parameter)
        sum_up(comm, bucket.flat)
        bucket.write_back(divide_by=comm.world_size)
