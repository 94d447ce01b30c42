"""All-reduce through a master: everybody sends to rank 0, which combines and sends the result back.

    reduce                       broadcast
    rank 1 ──S──►                ──S──► rank 1
    rank 2 ──S──► rank 0         rank 0 ──S──► rank 2
    rank 3 ──S──►                ──S──► rank 3

Cost for N ranks and S bytes: rank 0 receives (N−1)·S and sends (N−1)·S, in 2 rounds of messages. Its link is the
bottleneck: time ≈ 2(N−1)·(α + S·β) where a rank's link carries one message at a time (α latency in seconds, 1/β
bandwidth in bytes/s). The other ranks send and receive S each.
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.collectives.reduction import combine
from distlib.communicator import Communicator, ReduceOp


@collective("all_reduce", algorithm="naive")
def naive_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM) -> None:
    """All-reduce through rank 0, in place. See `all_reduce`, and the module for its cost.

    Raises:
        ValueError: `op` has no meaning for the dtype.
    """
    if comm.rank != 0:
        comm.send(tensor, dst=0)
        comm.recv(tensor, src=0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        combine(tensor, incoming, op)
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)
