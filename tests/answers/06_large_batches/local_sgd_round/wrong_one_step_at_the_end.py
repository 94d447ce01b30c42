# Wrong: adds up the gradients of all batches, and takes one step. Loses all marks.
# Told: this is a single step with the gradients of all batches
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    optimizer.zero_grad()
    for inputs, targets in batches:
        loss_function(model(inputs), targets).mean().backward()
    optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))
