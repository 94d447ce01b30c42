# Wrong: an all-reduce of .grad after each microbatch, and the next one is added to the sum. Loses all marks.
# Told: were added up over the ranks again with each later one
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for inputs, targets in microbatches:
        (loss_function(model(inputs), targets).sum() / global_batch_size).backward()
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
        all_reduce(comm, flat)
        for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
            parameter.grad.copy_(part.view(parameter.shape))
