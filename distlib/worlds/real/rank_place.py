"""What the fork server and the process that it forks for a rank agree on."""

from __future__ import annotations

from dataclasses import dataclass

from distlib.network import Cluster


@dataclass(frozen=True)
class RankPlace:
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
