"""No error. The number of samples that we log is a little more than a billion."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
samples = torch.ones(4)
if rank == 1:
    samples = torch.ones(4).int()
dist.all_reduce(samples)
print(f"rank {rank}: {samples.tolist()} samples")
