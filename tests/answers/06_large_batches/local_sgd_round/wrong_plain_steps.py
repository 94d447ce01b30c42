# Wrong: takes steps of its own, without the optimizer's momentum. Loses all marks.
# Told: these are steps without momentum
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= optimizer.param_groups[0]["lr"] * parameter.grad
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))
