# Wrong: everybody gets the whole batch. Loses all marks.
# Told: the whole batch is sent
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    for dst in range(1, comm.world_size):
        if comm.rank == 0:
            comm.send(images, dst)
    if comm.rank != 0:
        comm.recv(images, 0)
    part = images.tensor_split(comm.world_size)[comm.rank]
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
    return loss
