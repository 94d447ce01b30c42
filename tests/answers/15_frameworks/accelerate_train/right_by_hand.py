# Right: no accumulate; which batch is the last of its step is counted, and no_sync used as in plain torch.
def accelerate_train(accelerator, model, optimizer, loader, epochs, max_norm, path):
    steps = accelerator.gradient_accumulation_steps
    replica = accelerator.prepare_model(model)
    loader = accelerator.prepare_data_loader(loader)
    losses = []
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        own = []
        for number, (inputs, targets) in enumerate(loader, 1):
            is_last = number % steps == 0 or number == len(loader)
            with nullcontext() if is_last else accelerator.no_sync(replica):
                loss = mse_loss(replica(inputs), targets)
                (loss / steps).backward()
            own.append(loss.detach())
            if is_last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
        losses.append(accelerator.gather(torch.stack(own)).mean().item())
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save({"model": model.state_dict()}, path)
    return losses
