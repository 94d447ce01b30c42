# Right: prints the loss, which must cost nothing.
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
    if comm.rank == 0:
        print(f"loss {loss.item():.3f}")
    return loss
