# Wrong: the model is replicated after forward. Loses all marks.
# Told: Is the model replicated before forward?
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    output = model(split_batch(comm, images))
    outputs = gather_outputs(comm, output, len(images))
    loss, gradient = None, torch.empty(len(images), *output.shape[1:], dtype=output.dtype)
    if comm.rank == 0:
        outputs.requires_grad_()
        loss = loss_function(outputs, labels)
        loss.backward()
        gradient = outputs.grad
    output.backward(split_batch(comm, gradient), retain_graph=True)
    reduce_gradients(comm, model)
    replicate(comm, model)
    return loss
