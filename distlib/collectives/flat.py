"""Broadcast and reduce without intermediate ranks: the root talks to everybody, one after the other.

    broadcast                       reduce
            ──S──► rank 1           rank 1 ──S──►
    rank 0  ──S──► rank 2           rank 2 ──S──►  rank 0
            ──S──► rank 3           rank 3 ──S──►

Cost for N ranks and S bytes: 1 round, but all N−1 messages pass the root's link: (N−1)·(α + S/B), with α the latency in
seconds and B the bandwidth in bytes/s. `tree` needs ⌈log₂ N⌉ instead of N−1. These are the plain versions that others
are compared with; the argument for trees is in R. M. Karp et al., "Optimal broadcast and summation in the LogP model",
SPAA 1993.
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp


@collective("broadcast", algorithm="flat")
def flat_broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    """Copy the tensor of rank `root` to all others, in place. See `broadcast`, and the module for its cost.

    Raises:
        ValueError: there is no rank `root`.
    """
    if comm.rank != root:
        comm.recv(tensor, root)
        return
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(tensor, dst)


@collective("reduce", algorithm="flat")
def flat_reduce(comm: Communicator, tensor: torch.Tensor, root: int = 0, op: ReduceOp = ReduceOp.SUM) -> None:
    """Combine the tensors of all ranks on rank `root`, in place. See `reduce`, and the module for its cost.

    Raises:
        ValueError: there is no rank `root`, or `op` has no meaning for the dtype.
    """
    if comm.rank != root:
        comm.send(tensor, root)
        return
    incoming = torch.empty_like(tensor)
    for src in range(comm.world_size):
        if src != root:
            comm.recv(incoming, src)
            combine(tensor, incoming, op)
