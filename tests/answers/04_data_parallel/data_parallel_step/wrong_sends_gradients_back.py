# Wrong: the sums go back to everybody. Loses all marks.
# Told: gradients are sent back
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    part = split_batch(comm, images)
    replicate(comm, model)
    output = model(part)
    outputs = gather_outputs(comm, output, len(images))
    loss, gradient = None, torch.empty(len(images), *output.shape[1:], dtype=output.dtype)
    if comm.rank == 0:
        outputs.requires_grad_()
        loss = loss_function(outputs, labels)
        loss.backward()
        gradient = outputs.grad
    output.backward(split_batch(comm, gradient))
    reduce_gradients(comm, model)
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        if comm.rank != 0:
            comm.recv(parameter.grad, 0)
            continue
        for dst in range(1, comm.world_size):
            comm.send(parameter.grad, dst)
    return loss
