"""All-gather for any number of ranks in ⌈log₂ N⌉ rounds, after Bruck: each rank counts the chunks from its own on.

    5 ranks; what each has    from 1 on         from 2 on         the one that is missing, from 4 on
    rank 0   0                0 1               0 1 2 3           0 1 2 3 4
    rank 1   1                1 2               1 2 3 4           1 2 3 4 0
    rank 2   2                2 3               2 3 4 0           2 3 4 0 1
    rank 3   3                3 4               3 4 0 1           3 4 0 1 2
    rank 4   4                4 0               4 0 1 2           4 0 1 2 3

In the round of distance d, rank r sends what it has to rank r−d and receives from rank r+d. At the end every rank turns
its chunks into the right order. Cost for N ranks and S bytes: ⌈log₂ N⌉·α + (N−1)/N·S/B, and memory for one more S.

Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
IEEE Trans. Parallel Distrib. Syst. 8(11), 1997.
"""

from __future__ import annotations

import torch

from distlib.collectives.collective import collective
from distlib.communicator import Communicator
from distlib.network.powers import powers_of_two_below
from distlib.partition import chunks_of


@collective("all_gather", algorithm="bruck")
def bruck_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """Give every rank the chunks of all others, in place. See `all_gather`.

    Before, chunk `comm.rank` of the flattened tensor holds this rank's part; afterwards every chunk is everywhere.
    """
    rank, size = comm.rank, comm.world_size
    chunks = list(chunks_of(tensor, size))
    turned = torch.cat(chunks[rank:] + chunks[:rank])  # chunk `rank` comes first
    start = [0]
    for chunk in chunks[rank:] + chunks[:rank]:
        start.append(start[-1] + len(chunk))
    for distance in powers_of_two_below(size):
        lower, higher = (rank - distance) % size, (rank + distance) % size
        count = min(distance, size - distance)  # in the last round, fewer may be missing
        comm.exchange(turned[: start[count]], lower, turned[start[distance] : start[distance + count]], higher)
    of_rank_0 = start[size - rank] if rank else 0
    tensor.copy_(torch.cat((turned[of_rank_0:], turned[:of_rank_0])))
