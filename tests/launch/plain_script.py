"""A script of plain torch, as torchrun starts it: of the course it has one word. Its argument names what goes wrong."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn


def main(fault: str) -> None:
    dist.init_process_group("distlib")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    replica = nn.parallel.DistributedDataParallel(nn.Linear(3, 3))
    replica(torch.ones(2, 3)).sum().backward()
    if fault == "shapes":
        dist.all_reduce(torch.ones(3 + rank))
    if fault == "raises" and rank == 1:
        raise ValueError("no such label")
    if fault == "is killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exits" and rank == 1:
        sys.exit(3)
    if fault != "returns" or rank == 0:
        dist.all_reduce(total := torch.full((100_000,), float(rank)))
        print(f"rank {rank} of {size}: {total[0].item():.0f}")
    if fault == "ends":
        dist.destroy_process_group()
        print(f"rank {rank} goes on")


if __name__ == "__main__":
    main(sys.argv[1])
