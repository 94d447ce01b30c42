# Wrong: goes forward with all microbatches, and backward once at the end. Loses all marks.
# Told: a second microbatch went forward before the first had gone backward
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    total = sum(loss_function(model(inputs), targets).sum() for inputs, targets in microbatches)
    if microbatches:
        (total / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad.copy_(part.view(parameter.shape))
