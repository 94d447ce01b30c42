# Wrong: puts the microbatches of a step together, as if memory were no matter. Loses all marks.
# Told: a forward pass had 12 samples; a microbatch has 3
def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for step in steps:
        optimizer.zero_grad()
        inputs, targets = (torch.cat(each) for each in zip(*step, strict=True))
        mse_loss(ddp(inputs), targets).backward()
        optimizer.step()
