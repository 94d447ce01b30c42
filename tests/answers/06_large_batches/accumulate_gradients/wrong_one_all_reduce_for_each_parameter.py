# Wrong: each parameter has an all-reduce of its own. Loses all marks.
# Told: each parameter has an all-reduce of its own
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    for inputs, targets in microbatches:
        losses = loss_function(model(inputs), targets)
        (losses.sum() / global_batch_size).backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for parameter in trained:
        all_reduce(comm, parameter.grad)
