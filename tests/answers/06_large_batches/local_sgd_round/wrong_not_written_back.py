# Wrong: the average stays in the flat tensor. Loses all marks.
# Told: this is still the rank's own
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
