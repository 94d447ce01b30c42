# Right: all gradients and the loss in one flat tensor; isend with tags.
def hybrid_step(mesh, stage, shapes, inputs, targets, loss_function, global_batch_size):
    pp, dp = mesh["pp"], mesh["dp"]
    me, end = pp.rank, pp.world_size - 1
    kept, handles, losses = {}, [], 0.0
    for i in range(len(shapes)):
        x = inputs[i] if me == 0 else torch.zeros(*shapes[i]).double()
        if me > 0:
            pp.recv(x, me - 1, tag=i)
            x.requires_grad = True
        y = stage(x)
        if me < end:
            handles.append(pp.isend(y.detach(), me + 1, tag=i))
        kept[i] = x, y
    for i in range(len(shapes)):
        x, y = kept.pop(i)
        if me == end:
            loss = loss_function(y, targets[i]) / global_batch_size
            losses += loss.item()
            loss.backward()
        else:
            dy = torch.empty_like(y)
            pp.recv(dy, me + 1, tag=i)
            y.backward(gradient=dy)
        if me > 0:
            handles.append(pp.isend(x.grad, me - 1, tag=i))
    for handle in handles:
        handle.wait()
    gradients = [parameter.grad for parameter in stage.parameters()]
    flat = torch.cat([*(each.flatten() for each in gradients), torch.tensor([losses], dtype=torch.float64)])
    flat = flat if me == end else flat[:-1].clone()
    all_reduce(dp, flat)
    for each in gradients:
        each.copy_(flat[: each.numel()].view_as(each))
        flat = flat[each.numel() :]
    return flat.item() if me == end else None
