"""Stands still. We had set a timeout of four seconds, and it does not strike."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=4))
rank = dist.get_rank()
data, tensor = dist.new_group([0, 1]), dist.new_group([0, 1])
gradients, activations = torch.ones(4), torch.ones(4)
if rank == 0:
    dist.all_reduce(gradients, group=data)
    dist.all_reduce(activations, group=tensor)
else:
    dist.all_reduce(activations, group=tensor)
    dist.all_reduce(gradients, group=data)
print(f"rank {rank}: {gradients.sum().item():.0f} and {activations.sum().item():.0f}")
