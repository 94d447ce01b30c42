# Wrong: all microbatches are in no_sync, also the last one. Loses all marks.
# Told: gradients were never averaged over the ranks
def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for step in steps:
        optimizer.zero_grad()
        with ddp.no_sync():
            for inputs, targets in step:
                (mse_loss(ddp(inputs), targets) / len(step)).backward()
        optimizer.step()
