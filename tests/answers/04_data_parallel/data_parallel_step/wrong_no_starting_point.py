# Wrong: the gathered outputs have no history, and it does not make them a starting point. Loses all marks.
# Told: the gathered outputs have no history
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    part = split_batch(comm, images)
    replicate(comm, model)
    output = model(part)
    outputs = gather_outputs(comm, output, len(images))
    loss, gradient = None, torch.empty(len(images), *output.shape[1:], dtype=output.dtype)
    if comm.rank == 0:
        loss = loss_function(outputs, labels)
        loss.backward()
        gradient = outputs.grad
    output.backward(split_batch(comm, gradient))
    reduce_gradients(comm, model)
    return loss
