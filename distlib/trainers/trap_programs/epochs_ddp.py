"""A loader that shuffles, two epochs. Is the order a new one in the second? Plain torch."""

import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from distlib.trainers.same_task import numbers, say

dist.init_process_group("gloo")
loader = DataLoader(numbers(), 4, sampler=DistributedSampler(numbers(), shuffle=True))
for epoch in range(2):
    say(f"rank {dist.get_rank()}, epoch {epoch}: {next(iter(loader)).tolist()} …")
dist.destroy_process_group()
