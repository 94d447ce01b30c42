# Wrong: the mean of each microbatch; nothing divides by their number. Loses all marks.
# Told: each microbatch's mean was taken, and means were combined
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        losses.mean().backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad.copy_(part.view(parameter.shape))
