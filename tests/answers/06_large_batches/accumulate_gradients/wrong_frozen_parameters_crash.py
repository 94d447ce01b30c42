# Wrong: takes .grad of frozen parameters, too. Loses the hidden marks.
# Told: a parameter may have no gradient
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    trained = list(model.parameters())
    for parameter in trained:
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad.copy_(part.view(parameter.shape))
