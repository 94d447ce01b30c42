# Wrong: an all-reduce after each microbatch; the sums are right. Loses all marks.
# Told: the ranks talk after each microbatch
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = torch.cat([torch.zeros_like(parameter).reshape(-1) for parameter in trained])
    for inputs, targets in microbatches:
        model.zero_grad()
        (loss_function(model(inputs), targets).sum() / global_batch_size).backward()
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
        all_reduce(comm, flat)
        total += flat
    for parameter, part in zip(trained, total.split([parameter.numel() for parameter in trained])):
        parameter.grad = part.view(parameter.shape).clone()
