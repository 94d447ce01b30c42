"""All-gather by recursive doubling: in each round a rank has twice as many chunks as before.

    4 ranks; what each has    after distance 1    after distance 2
    rank 0   0                0 1                 0 1 2 3
    rank 1     1              0 1                 0 1 2 3
    rank 2       2                2 3             0 1 2 3
    rank 3         3              2 3             0 1 2 3

See `butterfly` for who exchanges with whom. Cost for N ranks and S bytes: log₂ N·α + (N−1)/N·S/B. The ring sends as
much, but in N−1 rounds. The pairs only come out even where N is a power of two; else this is Bruck's algorithm, which
takes ⌈log₂ N⌉ rounds.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
High Perform. Comput. Appl. 19(1), 2005.
"""

from __future__ import annotations

import torch

from distlib.collectives.bruck import bruck_all_gather
from distlib.collectives.butterfly import Blocks, double
from distlib.collectives.collective import collective
from distlib.communicator import Communicator
from distlib.network.powers import is_power_of_two


@collective("all_gather", algorithm="recursive_doubling")
def recursive_doubling_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """Give every rank the chunks of all others, in place. See `all_gather`.

    Before, chunk `comm.rank` of the flattened tensor holds this rank's part; afterwards every chunk is everywhere.
    """
    if is_power_of_two(comm.world_size):
        double(comm, Blocks(tensor, comm.world_size))
    else:
        bruck_all_gather(comm, tensor)
