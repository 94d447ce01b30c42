# Right: adds up losses and gradients, and divides only at the end.
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    for inputs, targets in microbatches:
        loss_function(model(inputs), targets).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    total = torch.cat([gradient.flatten() for gradient in gradients])
    all_reduce(comm, total, op=ReduceOp.SUM)
    total /= global_batch_size
    start = 0
    for gradient in gradients:
        gradient[...] = total[start : start + gradient.numel()].reshape(gradient.shape)
        start += gradient.numel()
