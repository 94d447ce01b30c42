# Right: plain lists, send and recv.
def hybrid_step(
    mesh: Mapping[str, Communicator],
    stage: torch.nn.Module,
    shapes: Sequence[Sequence[int]],
    inputs: Sequence[torch.Tensor] | None,
    targets: Sequence[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    global_batch_size: int,
) -> float | None:
    dp, pp = mesh["dp"], mesh["pp"]
    first, last = pp.rank == 0, pp.rank == pp.world_size - 1
    ins, outs = [], []
    for i, shape in enumerate(shapes):
        if first:
            x = inputs[i]
        else:
            x = torch.empty(list(shape), dtype=torch.float64)
            pp.recv(x, pp.rank - 1)
            x.requires_grad_()
        y = stage(x)
        if not last:
            pp.send(y.detach(), pp.rank + 1)
        ins.append(x)
        outs.append(y)
    total = torch.zeros(1, dtype=torch.float64)
    for i, (x, y) in enumerate(zip(ins, outs)):
        if last:
            loss = loss_function(y, targets[i]) / global_batch_size
            loss.backward()
            total += loss.detach()
        else:
            gradient = torch.empty_like(y)
            pp.recv(gradient, pp.rank + 1)
            y.backward(gradient)
        if not first:
            pp.send(x.grad, pp.rank - 1)
    for parameter in stage.parameters():
        all_reduce(dp, parameter.grad)
    if not last:
        return None
    all_reduce(dp, total)
    return total.item()
