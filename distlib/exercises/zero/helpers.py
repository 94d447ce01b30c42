"""Exercise 11: the two halves of an all-reduce, which its checks supply.

They begin in the background and are waited for, because a simulated rank keeps the tensors of its last message until
the next one, unless it was sent there. Its bytes are counted here.
"""

from __future__ import annotations

import torch

from distlib import collectives
from distlib.checks.supplied import helper
from distlib.communicator import Communicator, ReduceOp


@helper(in_place="tensor", same_as=collectives.reduce_scatter)
def reduce_scatter(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, algorithm: str = "ring"
) -> None:
    """In place; afterwards chunk `comm.rank` of `tensor` holds the result over all ranks. See distlib.collectives."""
    comm.start(collectives.reduce_scatter, tensor, op, algorithm).wait()


@helper(in_place="tensor", same_as=collectives.all_gather)
def all_gather(comm: Communicator, tensor: torch.Tensor, algorithm: str = "ring") -> None:
    """In place; rank r's chunk r ends up on every rank. See distlib.collectives."""
    comm.start(collectives.all_gather, tensor, algorithm).wait()
