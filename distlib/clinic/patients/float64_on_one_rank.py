"""Dies: "8 vs 4". But both ranks have a tensor of one number, I have printed the shapes."""

import numpy as np
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
loss = torch.zeros(1)
if rank == 1:
    loss = torch.tensor([np.mean([1.0, 3.0])])
dist.all_reduce(loss)
print(f"rank {rank}: loss {loss.item():.1f}")
