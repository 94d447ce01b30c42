# Wrong: takes its microbatches out of the list that it was given. Loses all marks.
# Told: it has changed its argument microbatches
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad()
    while microbatches:
        inputs, targets = microbatches.pop(0)
        (loss_function(model(inputs), targets).sum() / global_batch_size).backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained])
    all_reduce(comm, flat)
    for p, part in zip(trained, flat.split([p.numel() for p in trained])):
        p.grad = part.view(p.shape).clone()
