# Right: the plain loop, line by line.
def fabric_train(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path):
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    losses = []
    for _ in range(epochs):
        total = torch.zeros((), dtype=torch.float64)
        for number, (inputs, targets) in enumerate(loader, start=1):
            is_last = number % accumulate == 0 or number == len(loader)
            with fabric.no_backward_sync(model, enabled=not is_last):
                loss = mse_loss(model(inputs), targets)
                fabric.backward(loss / accumulate)
            total += loss.detach()
            if is_last:
                fabric.clip_gradients(model, optimizer, max_norm=max_norm)
                optimizer.step()
                optimizer.zero_grad()
        losses.append(fabric.all_reduce(total / len(loader)).item())
    fabric.save(path, {"model": model})
    return losses
