# Right: 1F1B by hand, with torch's messages between the stages.
def pipeline_step(module, num_microbatches, inputs, targets, loss_function, reduction):
    rank, size = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == size - 1
    share = num_microbatches if reduction == "mean" else 1
    entries = inputs.chunk(num_microbatches) if first else None
    wanted = targets.chunk(num_microbatches) if last else None
    shape, kept, works, losses = None, {}, [], []

    def receive(source):
        form = torch.empty(2, dtype=torch.int64)
        dist.recv(form, source)
        return form.tolist()

    def forward(i):
        nonlocal shape
        if first:
            entry = entries[i]
        else:
            shape = shape or receive(rank - 1)
            entry = torch.empty(shape, dtype=torch.float64)
            dist.recv(entry, rank - 1)
            entry.requires_grad_()
        output = module(entry)
        if last:
            loss = loss_function(output, wanted[i])
            losses.append(loss.item())
            output = loss / share
        else:
            if i == 0:
                works.append(dist.isend(torch.tensor(output.shape), rank + 1))
            works.append(dist.isend(output.detach(), rank + 1))
        kept[i] = entry, output

    def backward(i):
        entry, output = kept.pop(i)
        gradient = torch.ones_like(output)
        if not last:
            dist.recv(gradient, rank + 1)
        output.backward(gradient)
        if not first:
            works.append(dist.isend(entry.grad, rank - 1))

    warm_up = min(num_microbatches, size - rank)
    for i in range(warm_up):
        forward(i)
    for i in range(num_microbatches):
        backward(i)
        if i + warm_up < num_microbatches:
            forward(i + warm_up)
    for work in works:
        work.wait()
    return losses if last else None
