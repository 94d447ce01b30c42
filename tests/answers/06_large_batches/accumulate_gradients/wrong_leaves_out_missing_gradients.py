# Wrong: leaves out gradients that are missing, also where other ranks have them. Loses the hidden marks.
# Told: every rank must take part in the all-reduce, with as many numbers
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.grad is not None] or [torch.zeros(1).double()]
    flat = torch.cat([(parameter if parameter.grad is None else parameter.grad).reshape(-1) for parameter in trained])
    all_reduce(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad is None or parameter.grad.copy_(part.view(parameter.shape))
