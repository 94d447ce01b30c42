# Wrong: no DDP at all: averages gradients by hand, and each rank has weights of its own. Loses all marks.
# Told: went through the model alone, not through torch's DDP
import torch.distributed as dist


def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in steps:
        optimizer.zero_grad()
        for inputs, targets in step:
            (mse_loss(model(inputs), targets) / len(step)).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
        optimizer.step()
