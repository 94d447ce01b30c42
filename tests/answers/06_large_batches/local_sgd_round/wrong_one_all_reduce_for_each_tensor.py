# Wrong: each parameter has an all-reduce of its own. Loses all marks.
# Told: each parameter has an all-reduce of its own
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        for tensor in tensors:
            all_reduce(comm, tensor, op=ReduceOp.AVG)
