# Wrong: puts the microbatches together and goes forward once. Loses all marks.
# Told: All samples at once would need the memory of them all
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    if microbatches:
        inputs, targets = (torch.cat(parts) for parts in zip(*microbatches))
        (loss_function(model(inputs), targets).sum() / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad.copy_(part.view(parameter.shape))
