"""Trains for hours, and one day it stands still. The same run, started again, gets past that step."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weights, gradient = torch.ones(4), torch.ones(4)
loss = torch.tensor(1.5 + rank)
if loss > 2:  # it goes wrong: back to the last good weights
    dist.broadcast(weights, src=0)
dist.all_reduce(gradient)
weights -= 0.1 * gradient
print(f"rank {rank}: weights {weights.tolist()}")
