# Right: as in torch's documentation, with torch.optim.SGD.
def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for step in steps:
        optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(step):
            context = ddp.no_sync() if number < len(step) - 1 else contextlib.nullcontext()
            with context:
                loss = mse_loss(ddp(inputs), targets) / len(step)
                loss.backward()
        optimizer.step()
