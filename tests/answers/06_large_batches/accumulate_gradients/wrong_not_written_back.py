# Wrong: the sum stays in the flat tensor. Loses all marks.
# Told: these are the rank's own samples only
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
