# Wrong: the master computes everything, and the others send something of the right size. Loses all marks.
# Told: is not that of the whole batch
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    part = split_batch(comm, images)
    replicate(comm, model)
    output = model(part)
    gather_outputs(comm, output, len(images))
    split_batch(comm, torch.zeros(len(images), *output.shape[1:], dtype=output.dtype))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    reduce_gradients(comm, model)
    if comm.rank == 0:
        model.zero_grad()
        loss = loss_function(model(images), labels)
        loss.backward()
        return loss
