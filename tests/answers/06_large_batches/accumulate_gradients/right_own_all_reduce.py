# Right: adds up with an all-reduce of its own, through rank 0.
def add_up(comm, tensor):
    if comm.rank:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        tensor += incoming
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)


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
    add_up(comm, flat)
    for parameter, part in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad.copy_(part.view(parameter.shape))
