"""The first step works, the second says "Expected to have finished reduction in the prior iteration"."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
layers = torch.nn.ModuleDict({"body": torch.nn.Linear(2, 2), "old_head": torch.nn.Linear(2, 1)})
layers.forward = lambda batch: layers["body"](batch)
model = DistributedDataParallel(layers)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
print(f"rank {rank}: two steps done")
