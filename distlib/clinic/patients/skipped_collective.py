"""Trains for a while, then stands still on all three ranks. No error, the processors are idle."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(3):
    batch = torch.ones(4 - rank - step if rank + step < 4 else 0)  # fewer and fewer
    if len(batch) == 0:
        continue
    loss = batch.mean()
    dist.all_reduce(loss)
dist.barrier()
print(f"rank {rank}: all steps done, the last loss {loss.item()}")
