"""No error. On one machine all is well; on two, what one of them uses is not reduced."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
gradient = torch.ones(1000)
time.sleep(rank)  # rank 1's batch takes a second longer
work = dist.all_reduce(gradient, async_op=True)
used = gradient.clone()
work.wait()
print(f"rank {rank}: {int((used != 2).sum())} of {len(used)} numbers were used before they were summed")
