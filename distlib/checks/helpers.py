"""Helpers that several exercises supply. Those of one exercise stand in its own folder."""

from __future__ import annotations

from typing import Any

import torch

from distlib import collectives
from distlib.checks.student_communicator import StudentCommunicator
from distlib.checks.supplied import helper
from distlib.communicator import Communicator, ReduceOp, Work


@helper(in_place="tensor")
def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place; afterwards chunk `comm.rank` of `tensor` holds the sum over all ranks. See distlib.collectives."""
    collectives.ring_reduce_scatter(_unannounced(comm), tensor)


@helper(in_place="tensor")
def ring_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place; rank r's chunk r ends up on every rank. See distlib.collectives."""
    collectives.ring_all_gather(_unannounced(comm), tensor)


def _unannounced(comm: Communicator) -> Any:
    """A communicator to which no call is announced: a student reads about chunks that don't fit, as in the ring."""
    return StudentCommunicator(comm)


@helper(in_place="tensor", same_as=collectives.all_reduce)
def all_reduce(
    comm: Communicator,
    tensor: torch.Tensor,
    op: ReduceOp = ReduceOp.SUM,
    algorithm: str = "ring",
    async_op: bool = False,
) -> Work | None:
    """In place; with `async_op` it goes on in the background until `wait`. See distlib.collectives."""
    return collectives.all_reduce(comm, tensor, op, algorithm, async_op)


@helper(in_place="tensor", same_as=collectives.broadcast)
def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0, algorithm: str = "tree") -> None:
    """In place; every rank ends with the root's tensor. See distlib.collectives."""
    collectives.broadcast(comm, tensor, root, algorithm)
