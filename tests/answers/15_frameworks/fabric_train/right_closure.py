# Right: hands the optimizer a closure that goes backward in all batches of a step.
def fabric_train(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path):
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    losses = []
    for _ in range(epochs):
        batches, seen = list(loader), []
        for first in range(0, len(batches), accumulate):
            step = batches[first : first + accumulate]

            def closure(step=step, seen=seen):
                optimizer.zero_grad()
                for left, (inputs, targets) in zip(reversed(range(len(step))), step, strict=True):
                    with fabric.no_backward_sync(model, enabled=left > 0):
                        loss = mse_loss(model(inputs), targets)
                        fabric.backward(loss / accumulate)
                    seen.append(loss.detach())
                fabric.clip_gradients(model, optimizer, max_norm=max_norm)
                return loss

            optimizer.step(closure)
        losses.append(fabric.all_reduce(torch.stack(seen).mean()).item())
    fabric.save(path, {"model": model})
    return losses
