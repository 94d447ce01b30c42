# Wrong: averages at the start of the round, too. Loses all marks.
# Told: bytes were sent
@torch.no_grad()
def average(comm, model):
    tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    all_reduce(comm, flat, op=ReduceOp.AVG)
    for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
        tensor.copy_(part.view(tensor.shape))


def local_sgd_round(comm, model, loss_function, batches, optimizer):
    average(comm, model)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    average(comm, model)
