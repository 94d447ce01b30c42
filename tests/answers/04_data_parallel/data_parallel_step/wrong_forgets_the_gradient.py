# Wrong: calls backward on outputs without a gradient. Loses all marks.
# Told: call output.backward(part)
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
    split_batch(comm, gradient)
    output.backward()
    reduce_gradients(comm, model)
    return loss
