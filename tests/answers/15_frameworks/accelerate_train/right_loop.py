# Right: the loop of the tables.
def accelerate_train(accelerator, model, optimizer, loader, epochs, max_norm, path):
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(epochs):
        total = torch.zeros((), dtype=torch.float64)
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        losses.append(accelerator.reduce(total / len(loader), "mean").item())
    accelerator.save({"model": accelerator.unwrap_model(model).state_dict()}, path)
    return losses
