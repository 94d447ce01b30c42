"""A barrier made of empty messages: after ⌈log₂ N⌉ rounds every rank has heard of every other.

    5 ranks        rank 0 has heard of
    distance 1     4                rank r sends to r+1, and hears from r−1
    distance 2     4, 3, 2          rank r sends to r+2, and hears from r−2, which has heard from r−3
    distance 4     4, 3, 2, 1       …

Cost for N ranks: ⌈log₂ N⌉·α, no bytes. Unlike a walk up and down a tree, it takes equally long on every rank.

Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", Int. J. Parallel Program. 17(1),
1988.
"""

from __future__ import annotations

import torch

from distlib.collectives.arguments import announced, check_communicator
from distlib.communicator import Communicator
from distlib.network.powers import powers_of_two_below


def barrier(comm: Communicator) -> None:
    """Return when every rank of `comm` has called `barrier`.

    `Communicator.barrier` does the same; this one shows how to do it with messages.
    """
    check_communicator("barrier", comm)
    comm = announced(comm, "barrier")
    rank, size = comm.rank, comm.world_size
    outgoing, incoming = torch.empty(0, device=comm.device), torch.empty(0, device=comm.device)
    for distance in powers_of_two_below(size):
        next_rank, previous_rank = (rank + distance) % size, (rank - distance) % size
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
