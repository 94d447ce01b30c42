"""Stands still when the first checkpoint is due."""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(2, 1)
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
if rank == 0:
    optimizer.consolidate_state_dict(to=0)
    print(f"rank {rank}: saved {len(optimizer.state_dict()['state'])} states")
dist.barrier()
print(f"rank {rank}: goes on")
