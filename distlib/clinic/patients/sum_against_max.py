"""No error. We log the losses of four classes, summed over the ranks, and half of them are too small."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
losses = torch.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]])[rank]
if rank == 0:
    dist.all_reduce(losses, dist.ReduceOp.SUM)
else:  # was changed for a test, and never back
    dist.all_reduce(losses, dist.ReduceOp.MAX)
print(f"rank {rank}: losses {losses.tolist()}")
