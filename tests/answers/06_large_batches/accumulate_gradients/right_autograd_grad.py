# Right: torch.autograd.grad and a flat sum of its own; .grad is written once, at the end.
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    trained = [p for p in model.parameters() if p.requires_grad]
    total = torch.cat([torch.zeros_like(p).reshape(-1) for p in trained])
    for inputs, targets in microbatches:
        loss = loss_function(model(inputs), targets).sum() / global_batch_size
        total += torch.cat([gradient.reshape(-1) for gradient in torch.autograd.grad(loss, trained)])
    all_reduce(comm, total)
    for p in trained:
        p.grad, total = total[: p.numel()].reshape(p.shape).clone(), total[p.numel() :]
