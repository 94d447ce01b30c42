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

import torch

from distlib.collectives.arguments import announced, check_blocks
from distlib.collectives.cluster_of import cluster_of
from distlib.collectives.reduction import check_op, combine, finish
from distlib.communicator import Communicator, ReduceOp
from distlib.network.duration import best_blocks
from distlib.network.two_trees import Hop, moves_up, two_trees
from distlib.partition import chunks_of, flat_view, write_back


@torch.no_grad()
def double_tree_all_reduce(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, *, blocks: int | None = None
) -> None:
    """All-reduce along two trees, in place. See `all_reduce`, and the module for its cost.

    Args:
        blocks: into how many blocks each half is cut; None for what is fastest by the model of `network`.

    Raises:
        ValueError: `op` has no meaning for the dtype, or `blocks` is less than 1.
    """
    check_op(op, tensor.dtype)
    comm = announced(comm, "all_reduce", op=op, algorithm="double_tree", blocks=blocks)
    if blocks is None:
        blocks = best_blocks(cluster_of(comm), tensor.numel(), tensor.element_size())
    check_blocks(blocks)
    flat = flat_view(tensor)
    pieces = [chunks_of(half, blocks) for half in chunks_of(flat, 2)]  # pieces[tree][block]
    incoming = torch.empty_like(pieces[0][0])
    moves = moves_up(comm.rank, comm.world_size, blocks)

    def at(hop: Hop | None) -> tuple[torch.Tensor, int | None]:  # which block, and who is at the other end
        return (flat[:0], None) if hop is None else (pieces[hop.tree][hop.block], hop.peer)

    for to_parent, from_child in moves:
        (outgoing, parent), (target, child) = at(to_parent), at(from_child)
        arrived = incoming[: len(target)]
        _transfer(comm, outgoing, parent, arrived, child)
        combine(target, arrived, op)
    for half, parents in zip(chunks_of(flat, 2), two_trees(comm.world_size).parents, strict=True):
        if parents[comm.rank] is None:
            finish(half, op, comm.world_size)  # at the root of this half
    for from_parent, to_child in reversed(moves):
        (target, parent), (outgoing, child) = at(from_parent), at(to_child)
        _transfer(comm, outgoing, child, target, parent)
    write_back(tensor, flat)


def _transfer(
    comm: Communicator, outgoing: torch.Tensor, dst: int | None, incoming: torch.Tensor, src: int | None
) -> None:
    """Send, receive, or both at once; None where there is nobody at the other end."""
    if dst is not None and src is not None:
        comm.exchange(outgoing, dst, incoming, src)
    elif dst is not None:
        comm.send(outgoing, dst)
    elif src is not None:
        comm.recv(incoming, src)
