# Right: means of microbatches, weighted by their lengths; an average over ranks, times their number. It prints.
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    model.zero_grad(set_to_none=False)
    print("rank", comm.rank, "has", len(microbatches), "microbatches")
    for inputs, targets in microbatches:
        share = len(targets) / global_batch_size
        (loss_function(model(inputs), targets).mean() * share * comm.world_size).backward()
    trained = list(filter(lambda p: p.requires_grad, model.parameters()))
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.nn.utils.parameters_to_vector(gradients)
    all_reduce(comm, flat, op=ReduceOp.AVG)
    for p, part in zip(trained, flat.split([p.numel() for p in trained])):
        p.grad = part.reshape(p.shape)
