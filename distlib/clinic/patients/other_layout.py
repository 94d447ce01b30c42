"""No error. Rank 1 got its weights from rank 0, and its model is no better than noise."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
kernel = torch.arange(8.0).view(1, 2, 2, 2)
if rank == 1:  # convolutions are faster like this
    kernel = torch.zeros(1, 2, 2, 2).to(memory_format=torch.channels_last)
dist.broadcast(kernel, src=0)
print(f"rank {rank}: kernel {kernel.flatten().tolist()}")
