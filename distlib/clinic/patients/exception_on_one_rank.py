"""Dies: "Connection closed by peer". Is the network broken?"""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
labels = torch.tensor([3, 7, 9]) + rank
for label in labels.tolist():
    if label > 9:
        raise ValueError(f"expected a digit, got {label}")
    count = torch.ones(1)
    dist.all_reduce(count)
print(f"rank {rank}: all labels read")
