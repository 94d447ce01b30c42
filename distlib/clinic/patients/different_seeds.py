"""No error. The loss falls on every rank, but the model that rank 0 saves is worse than the loss says."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    batch = torch.tensor([[1.0, rank], [rank, 1.0]])
    optimizer.zero_grad()
    (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
print(f"rank {rank}: weights {[round(weight, 3) for weight in model.weight.flatten().tolist()]}")
