"""All-reduce along two binary trees at once, in blocks: tree latency, and almost the bandwidth of a ring.

The first half of the tensor goes up one tree to its root, the second half up another tree, in which the leaves of the
first are inner nodes. Each half is cut into k blocks, so that the trees fill like pipelines. Then all goes down again.

    7 ranks:  tree 0: 3 ◄─ 1 ◄─ 0, 2    3 ◄─ 5 ◄─ 4, 6         tree 1: 4 ◄─ 2 ◄─ 1, 3    4 ◄─ 6 ◄─ 5, 0

    rank 1 on the way up    round 0    block 0 of tree 0 arrives from rank 0
    (k = 2)                 round 1    block 0 of tree 0 arrives from rank 2, block 0 of tree 1 goes to rank 2
                            round 2    block 1 of tree 0 arrives from rank 0, block 0 of tree 0 goes to rank 3
                            …

`network.two_trees` makes the trees and the schedule of each rank; in a round a rank sends at most one block and
receives at most one. On the way down the rounds run backwards, with senders and receivers exchanged.

Cost for N ranks, S bytes and k blocks per half: (4k + c)·(α + S/(2k·B)), where c grows as 4·log₂ N. With many blocks
the second factor makes that 2·S/B + …, the bandwidth term of a ring, and the rounds grow with log₂ N and not with N.
A rank sends at most 2·S bytes.

Source: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35(12), 2009. NCCL does it between nodes since its version 2.4 (S. Jeaugey, "Massively scale your
deep learning training with NCCL 2.4", NVIDIA technical blog, 2019).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from distlib.arguments import check_integer
from distlib.collectives.cluster_of import cluster_of
from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.network.duration import best_blocks
from distlib.network.two_trees import Hop, moves_up
from distlib.partition import Chunks, chunks_of


@collective("all_reduce", algorithm="double_tree")
def double_tree_all_reduce(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, *, blocks: int | None = None
) -> None:
    """All-reduce along two trees, in place. See `all_reduce`, and the module for its cost.

    Args:
        blocks: into how many blocks each half is cut; None for what is fastest by the model of `network`.

    Raises:
        ValueError: `op` has no meaning for the dtype, or `blocks` is less than 1.
    """
    if blocks is None:
        blocks = best_blocks(cluster_of(comm), tensor.numel(), tensor.element_size())
    blocks = check_integer("double_tree_all_reduce", "blocks", blocks, 1)
    halves = [chunks_of(half, blocks) for half in chunks_of(tensor, 2)]  # halves[tree][block]
    moves = moves_up(comm.rank, comm.world_size, blocks)
    for to_parent, from_child in moves:
        mine = _at(halves, from_child)
        arriving = None if mine is None else Load(torch.empty_like(mine.block), mine.peer)
        _transfer(comm, outgoing=_at(halves, to_parent), incoming=arriving)
        if mine is not None and arriving is not None:
            combine(mine.block, arriving.block, op)
    for from_parent, to_child in reversed(moves):
        _transfer(comm, outgoing=_at(halves, to_child), incoming=_at(halves, from_parent))


class Load(NamedTuple):
    """A block that is sent or received, and the rank at the other end."""

    block: torch.Tensor
    peer: int


def _at(halves: list[Chunks], hop: Hop | None) -> Load | None:
    """What is sent or received in one direction in one round: a block, or nothing."""
    return None if hop is None else Load(halves[hop.tree][hop.block], hop.peer)


def _transfer(comm: Communicator, outgoing: Load | None, incoming: Load | None) -> None:
    """Send, receive, or do both at once."""
    if outgoing is not None and incoming is not None:
        comm.exchange(outgoing.block, outgoing.peer, incoming.block, incoming.peer)
    elif outgoing is not None:
        comm.send(outgoing.block, outgoing.peer)
    elif incoming is not None:
        comm.recv(incoming.block, incoming.peer)
