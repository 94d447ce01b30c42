"""Stands still when the better of two models is sent to all. Both ranks are in the same call."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weights = torch.full((3,), float(rank))
losses = torch.tensor([[0.3, 0.5], [0.4, 0.1]])[rank]  # of both models, on this rank's data
best = int(losses.argmin())
dist.broadcast(weights, src=best)
print(f"rank {rank}: goes on with {weights.tolist()}")
