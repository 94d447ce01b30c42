# Right: without no_backward_sync; the gradients are averaged by all_reduce, and the file is written by torch.
def fabric_train(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path):
    wrapped = fabric.setup_module(model)
    optimizer = fabric.setup_optimizers(optimizer)
    loader = fabric.setup_dataloaders(loader)
    losses = torch.zeros(epochs, dtype=torch.float64)
    for epoch in range(epochs):
        batches = list(loader)
        for first in range(0, len(batches), accumulate):
            group = batches[first : first + accumulate]
            optimizer.zero_grad()
            for inputs, targets in group:
                loss = mse_loss(model(inputs), targets)  # not through the wrapper: nothing travels
                (loss / accumulate).backward()
                losses[epoch] += loss.item() / len(batches)
            for parameter in wrapped.parameters():
                fabric.all_reduce(parameter.grad)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
    fabric.barrier()
    if fabric.is_global_zero:
        torch.save({"model": model.state_dict()}, path)
    fabric.print("trained")
    return fabric.all_reduce(losses, reduce_op="sum").div(fabric.world_size).tolist()
