# Wrong: averages the parameters instead of adding up gradients. Loses all marks.
# Told: layers.0.weight itself has changed
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    with torch.no_grad():
        flat = torch.cat([parameter.reshape(-1) for parameter in trained]) + comm.rank
        all_reduce(comm, flat, op=ReduceOp.AVG)
        for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
            parameter.copy_(part.view(parameter.shape))
