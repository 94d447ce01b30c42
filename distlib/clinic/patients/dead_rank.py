"""Dies after some steps: "Connection closed by peer". The other rank's log just ends."""

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
kept = []
for _ in range(5):
    loss = torch.ones(1 + rank)
    kept.append(loss.sum().item())
    if sum(kept) > 5:
        os.kill(os.getpid(), signal.SIGKILL)  # as the system does when memory runs out
    total = loss.sum()
    dist.all_reduce(total)
print(f"rank {rank}: five steps done")
