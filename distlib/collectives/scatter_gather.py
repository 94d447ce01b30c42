"""Scatter and gather: the root hands every rank its chunk of a tensor, and collects the chunks again.

    scatter from rank 0              gather to rank 0
            ──chunk 1──► rank 1      rank 1 ──chunk 1──►
    rank 0  ──chunk 2──► rank 2      rank 2 ──chunk 2──►  rank 0
            ──chunk 3──► rank 3      rank 3 ──chunk 3──►

Chunks are as torch.tensor_split cuts the flattened tensor; rank 0 has chunk 0 already. Cost for N ranks and S bytes:
N−1 messages one after the other at the root, (N−1)·α + (N−1)/N·S/B.

Along a binomial tree it would take ⌈log₂ N⌉·α for the same (N−1)/N·S/B at the root, but every chunk would pass through
other ranks, which need memory for it. The direct way moves each byte once, and is what gloo does; MPICH uses the tree
(R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J. High
Perform. Comput. Appl. 19(1), 2005).
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.communicator import Communicator
from distlib.partition import chunks_of


@collective("scatter")
def scatter(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Give every rank its chunk of the tensor of rank `root`, in place.

    Afterwards chunk `comm.rank` of the flattened tensor is that of the root; the other chunks are what they were.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank.
        root: the rank that has all chunks.

    Raises:
        ValueError: there is no rank `root`.
        MessageMismatch: chunks of different length or dtype on two ranks.
    """
    chunks = chunks_of(tensor, comm.world_size)
    if comm.rank != root:
        comm.recv(chunks[comm.rank], root)
        return
    for dst, chunk in enumerate(chunks):
        if dst != root:
            comm.send(chunk, dst)


@collective("gather")
def gather(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Collect chunk `comm.rank` of every rank's tensor in the tensor of rank `root`, in place.

    Afterwards the root has every chunk; the tensors of the others are what they were.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank.
        root: the rank that gets all chunks.

    Raises:
        ValueError: there is no rank `root`.
        MessageMismatch: chunks of different length or dtype on two ranks.
    """
    chunks = chunks_of(tensor, comm.world_size)
    if comm.rank != root:
        comm.send(chunks[comm.rank], root)
        return
    for src, chunk in enumerate(chunks):
        if src != root:
            comm.recv(chunk, src)
