# Wrong: adds up the losses, with one backward pass at the end. Loses all marks.
# Told: a forward pass follows another one, with no backward pass between them
def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for step in steps:
        optimizer.zero_grad()
        loss = sum(mse_loss(ddp(inputs), targets) for inputs, targets in step)
        (loss / len(step)).backward()
        optimizer.step()
