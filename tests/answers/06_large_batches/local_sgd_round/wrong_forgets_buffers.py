# Wrong: averages the parameters only. Loses all marks.
# Told: The buffers that hold floating-point numbers are averaged, too
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters()]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))
