"""Broadcast, reduce and all-reduce along a binomial tree: in every step, twice as many ranks have the data.

    broadcast from rank 0 to 8 ranks; each arrow carries S bytes

    distance 4    0 ──────────────► 4
    distance 2    0 ──────► 2       4 ──────► 6
    distance 1    0 ──► 1   2 ──► 3   4 ──► 5   6 ──► 7

    reduce: the same arrows from the last to the first, turned around. A rank that has sent is done.

With another root, all ranks are counted from there. Cost for N ranks and S bytes: ⌈log₂ N⌉·(α + S/B), for an all-reduce
(reduce, then broadcast) twice that. Few rounds, so it is good for small tensors; but the whole S moves in each round,
so it is not for large ones (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
in MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005).
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp
from distlib.network.powers import powers_of_two_below


@collective("broadcast", algorithm="tree")
def tree_broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Copy the tensor of rank `root` to all others, in place. See `broadcast`, and the module for its cost.

    Raises:
        ValueError: there is no rank `root`.
    """
    rank, size = comm.rank, comm.world_size
    from_root = (rank - root) % size
    for distance in reversed(powers_of_two_below(size)):
        parent, child = (rank - distance) % size, (rank + distance) % size
        if from_root % (2 * distance) == distance:
            comm.recv(tensor, parent)
        elif from_root % (2 * distance) == 0 and from_root + distance < size:
            comm.send(tensor, child)


@collective("reduce", algorithm="tree")
def tree_reduce(comm: Communicator, tensor: torch.Tensor, root: int = 0, op: ReduceOp = ReduceOp.SUM) -> None:
    """Combine the tensors of all ranks on rank `root`, in place. See `reduce`, and the module for its cost.

    Raises:
        ValueError: there is no rank `root`, or `op` has no meaning for the dtype.
    """
    rank, size = comm.rank, comm.world_size
    from_root = (rank - root) % size
    incoming = torch.empty_like(tensor)
    for distance in powers_of_two_below(size):
        parent, child = (rank - distance) % size, (rank + distance) % size
        if from_root % (2 * distance) == distance:
            comm.send(tensor, parent)
            return
        if from_root + distance < size:
            comm.recv(incoming, child)
            combine(tensor, incoming, op)


@collective("all_reduce", algorithm="tree")
def tree_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """All-reduce by a reduce to rank 0 and a broadcast from it, in place. See `all_reduce`, and the module.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    tree_reduce(comm, tensor, 0, op)
    tree_broadcast(comm, tensor, 0)
