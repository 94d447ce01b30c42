# Wrong: takes the model of rank 0. Loses all marks.
# Told: this is what rank 0 had
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        flat *= comm.rank == 0
        all_reduce(comm, flat)
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors])):
            tensor.copy_(part.view(tensor.shape))
