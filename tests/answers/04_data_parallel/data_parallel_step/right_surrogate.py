# Right: multiplies output and gradient, and goes backward from the sum.
def data_parallel_step(comm, model, images, labels, loss_function):
    for parameter in model.parameters():
        parameter.grad = None
    replicate(comm, model)
    output = model(split_batch(comm, images))
    outputs = gather_outputs(comm, output, len(images))
    if outputs is None:
        loss, gradient = None, output.new_zeros((len(images), *output.shape[1:]))
    else:
        outputs = outputs.clone().requires_grad_()
        total = loss_function(outputs, labels)
        (gradient,) = torch.autograd.grad(total, outputs)
        loss = total.detach()
    (output * split_batch(comm, gradient)).sum().backward()
    reduce_gradients(comm, model)
    return loss
