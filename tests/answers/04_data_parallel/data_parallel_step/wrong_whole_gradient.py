# Wrong: sends the whole gradient of the outputs to everybody. Loses all marks.
# Told: the whole gradient of the outputs is sent
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
        for dst in range(1, comm.world_size):
            comm.send(gradient, dst)
    else:
        comm.recv(gradient, 0)
    output.backward(gradient.tensor_split(comm.world_size)[comm.rank])
    reduce_gradients(comm, model)
    return loss
