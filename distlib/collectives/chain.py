"""Broadcast and reduce along a chain, in blocks: every rank passes a block on while it receives the next one.

    broadcast of 3 blocks from rank 0          reduce: the same arrows, turned around and in the same order

    rank 0 ──block 2──► rank 1 ──block 1──► rank 2 ──block 0──► rank 3

Cost for N ranks, S bytes and k blocks: k + N − 2 steps of a block each, (k + N − 2)·(α + S/(k·B)). With many blocks
that is about S/B, however many ranks there are, and no link carries more than S. A tree needs log₂ N times S/B, a root
that talks to everybody N−1 times. The price is latency: k + N − 2 steps instead of log₂ N, so a tree is better for
small tensors.

With another root, all ranks are counted from there. NCCL broadcasts and reduces along its rings in this way (its
src/graph/tuning.cc allows no other algorithm for the two). Source: the linear pipeline in P. Sanders, J. Speck,
J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35(12), 2009.
"""

from __future__ import annotations

import torch

from distlib.arguments import check_integer
from distlib.collectives.cluster_of import cluster_of
from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.network.duration import best_chain_blocks
from distlib.partition import chunks_of


@collective("broadcast", algorithm="chain")
def chain_broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0, *, blocks: int | None = None) -> None:
    """Copy the tensor of rank `root` to all others, in place. See `broadcast`, and the module for its cost.

    Args:
        blocks: into how many blocks the tensor is cut; None for what is fastest by the model of `network`.

    Raises:
        ValueError: there is no rank `root`, or `blocks` is less than 1.
    """
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    sending = []
    for block in chunks_of(tensor, _number_of_blocks("chain_broadcast", comm, tensor, blocks)):
        if rank != root:
            comm.recv(block, previous_rank)
        if next_rank != root:
            sending.append(comm.isend(block, next_rank))  # on its way while the next block arrives
    for work in sending:
        work.wait()


@collective("reduce", algorithm="chain")
def chain_reduce(
    comm: Communicator, tensor: torch.Tensor, root: int = 0, op: ReduceOp = ReduceOp.SUM, *, blocks: int | None = None
) -> None:
    """Combine the tensors of all ranks on rank `root`, in place. See `reduce`, and the module for its cost.

    Args:
        blocks: into how many blocks the tensor is cut; None for what is fastest by the model of `network`.

    Raises:
        ValueError: there is no rank `root`, `op` has no meaning for the dtype, or `blocks` is less than 1.
    """
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    sending = []
    for block in chunks_of(tensor, _number_of_blocks("chain_reduce", comm, tensor, blocks)):
        if next_rank != root:
            incoming = torch.empty_like(block)
            comm.recv(incoming, next_rank)
            combine(block, incoming, op)
        if rank != root:
            sending.append(comm.isend(block, previous_rank))
    for work in sending:
        work.wait()


def _number_of_blocks(name: str, comm: Communicator, tensor: torch.Tensor, blocks: int | None) -> int:
    """The number of blocks that was given, or else the best."""
    if blocks is None:
        return best_chain_blocks(cluster_of(comm), tensor.numel(), tensor.element_size())
    return check_integer(name, "blocks", blocks, 1)
