# Right: prepares one thing after the other, zeroes the gradients of the optimizer inside, and gathers every loss.
def accelerate_train(accelerator, model, optimizer, loader, epochs, max_norm, path):
    model = accelerator.prepare(model)
    optimizer, loader = accelerator.prepare(optimizer, loader)
    history = torch.zeros(epochs, dtype=torch.float64)
    for epoch in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = torch.mean((model(batch[0]) - batch[1]) ** 2)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), max_norm=max_norm)
                optimizer.step()
                if accelerator.sync_gradients:
                    optimizer.optimizer.zero_grad()
            history[epoch] += accelerator.gather_for_metrics(loss.detach().repeat(len(batch[0]))).mean() / len(loader)
    state = accelerator.get_state_dict(model)
    accelerator.save({"model": state}, Path(path))
    accelerator.print("saved")
    return history
