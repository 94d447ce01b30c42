# Right: a function for each kind of action; the first gradient, not the loss, is multiplied by n / N. It prints.
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    here, previous, following = comm.rank, comm.rank - 1, comm.rank + 1
    is_first, is_last = here == 0, following == comm.world_size
    samples = sum(shape[0] for shape in shapes)
    kept, under_way = {}, []
    batch_loss = 0.0

    def forward(i):
        nonlocal batch_loss
        if is_first:
            x = inputs[i]
        else:
            x = torch.empty(tuple(shapes[i]), dtype=torch.float64)
            comm.recv(x, previous, tag=i)
            x.requires_grad = True
        y = module(x)
        if is_last:
            y = loss_function(y, targets[i])
            batch_loss += y.item() * shapes[i][0] / samples
        else:
            under_way.append(comm.isend(y.detach(), following, tag=i))
        kept[i] = (x, y)

    def backward(i):
        x, y = kept.pop(i)
        gradient = torch.empty_like(y)
        if is_last:
            gradient.fill_(shapes[i][0] / samples)
        else:
            comm.recv(gradient, following, tag=i)
        y.backward(gradient)
        if not is_first:
            under_way.append(comm.isend(x.grad, previous, tag=i))

    for action in actions:
        kind, i = read_action(action)
        (forward if kind == "F" else backward)(i)
    print(f"rank {here}: {len(under_way)} messages")
    for work in under_way:
        work.wait()
    return batch_loss if is_last else None
