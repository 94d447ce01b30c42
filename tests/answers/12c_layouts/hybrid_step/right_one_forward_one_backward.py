# Right: 1F1B, with isend; gradients of torch.autograd.grad, added up by hand.
def hybrid_step(mesh, stage, shapes, inputs, targets, loss_function, global_batch_size):
    pp, number = mesh["pp"], len(shapes)
    is_last, parameters = pp.rank + 1 == pp.world_size, list(stage.parameters())
    sums = [torch.zeros_like(each) for each in parameters]
    waiting, sends, total = [], [], torch.zeros((), dtype=torch.float64)

    def forward(i):
        entry = inputs[i].clone() if pp.rank == 0 else torch.empty(list(shapes[i]), dtype=torch.float64)
        if pp.rank:
            pp.recv(entry, pp.rank - 1, tag=2 * i)
        entry.requires_grad_()
        output = stage(entry)
        if not is_last:
            sends.append(pp.isend(output.detach(), pp.rank + 1, tag=2 * i))
        waiting.append((i, entry, output))

    def backward():
        i, entry, output = waiting.pop(0)
        gradient = None
        if is_last:
            output = loss_function(output, targets[i]) / global_batch_size
            total.add_(output.detach())
        else:
            gradient = torch.empty_like(output)
            pp.recv(gradient, pp.rank + 1, tag=2 * i + 1)
        found = torch.autograd.grad(output, [entry, *parameters], gradient)
        for own, each in zip(sums, found[1:]):
            own += each
        if pp.rank:
            sends.append(pp.isend(found[0], pp.rank - 1, tag=2 * i + 1))

    warmup = min(number, pp.world_size - pp.rank)
    for i in range(warmup):
        forward(i)
    for i in range(number):
        backward()
        if i + warmup < number:
            forward(i + warmup)
    for send in sends:
        send.wait()
    for parameter, own in zip(parameters, sums):
        all_reduce(mesh["dp"], own)
        parameter.grad = own
    if is_last:
        all_reduce(mesh["dp"], total)
        return float(total)
    return None
