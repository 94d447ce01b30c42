# Right: takes the microbatches from the last to the first.
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.grad = None
    for inputs, targets in reversed(microbatches):
        (loss_function(model(inputs), targets).sum() / global_batch_size).backward()
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained])
    all_reduce(comm, flat)
    for p, part in zip(trained, flat.split([p.numel() for p in trained])):
        p.grad = part.view(p.shape)
