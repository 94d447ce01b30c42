# Right: a helper of one's own for a step; gradients are zeroed before it, and losses gathered.
def one_batch(fabric, model, batch, accumulate):
    inputs, targets = batch
    loss = mse_loss(model(inputs), targets)
    fabric.backward(loss, gradient=torch.tensor(1 / accumulate).double())
    return loss.item()


def fabric_train(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path):
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader, move_to_device=False)
    means = []
    for epoch in range(epochs):
        losses, waiting = [], []
        for batch in loader:
            waiting.append(batch)
            if len(waiting) < accumulate and len(losses) + len(waiting) < len(loader):
                continue
            optimizer.zero_grad(set_to_none=False)
            with fabric.no_backward_sync(model):
                losses += [one_batch(fabric, model, each, accumulate) for each in waiting[:-1]]
            losses.append(one_batch(fabric, model, waiting[-1], accumulate))
            fabric.clip_gradients(model.module, optimizer, max_norm=max_norm, error_if_nonfinite=False)
            optimizer.step()
            waiting = []
        means.append(fabric.all_gather(sum(losses) / len(losses)).mean())
    state = {"model": model.state_dict()} if fabric.is_global_zero else {}
    fabric.save(Path(path), state)
    return means
