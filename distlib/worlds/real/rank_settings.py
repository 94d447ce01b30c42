"""What the fork server and the process that it forks for a rank agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it takes torch along, and the kernel starts its fork server before it has that
    from distlib.network import Cluster

# Variables of the ranks' fork server, whatever the notebook's are.
ENVIRONMENT = {
    "MPLBACKEND": "module://distlib.draw.rank_figures",  # a rank has no screen
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"),
    "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",  # macOS: else it ends a fork that uses one of its own libraries
    "THP_MEM_ALLOC_ENABLE": "1",  # torch: huge pages for large tensors, which are cheaper to get and to copy
}


@dataclass(frozen=True)
class RankSettings:
    """Which rank of which world a process is going to be.

    Attributes:
        rank, world_size: as in `Communicator`.
        directory: the world's private directory.
        backend: "shared_memory", "gloo", "nccl" or "files".
        threads: how many threads torch may use in this rank.
        network: what messages are paced by, or None.
    """

    rank: int
    world_size: int
    directory: str
    backend: str
    threads: int
    network: Cluster | None = None
