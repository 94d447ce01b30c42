"""Since we look at the validation loss in between, training stands still after the first look."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))
for _ in range(2):
    model(torch.randn(4, 2)).square().sum().backward()
    if rank == 0:
        validation = model(torch.ones(4, 2)).sum().item()
print(f"rank {rank}: two steps done")
