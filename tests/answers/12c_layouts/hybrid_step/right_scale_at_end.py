# Right: divides gradients and loss by the batch size only at the end.
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
    xs, ys = [], []
    for i, shape in enumerate(shapes):
        if first:
            xs.append(inputs[i])
        else:
            x = torch.empty(list(shape), dtype=torch.float64)
            pp.recv(x, pp.rank - 1)
            xs.append(x.requires_grad_())
        ys.append(stage(xs[-1]))
        if not last:
            pp.send(ys[-1].detach(), pp.rank + 1)
    total = torch.zeros(1, dtype=torch.float64)
    for i, y in enumerate(ys):
        if last:
            loss = loss_function(y, targets[i])
            total += loss.detach()
            loss.backward()
        else:
            g = torch.empty_like(y)
            pp.recv(g, pp.rank + 1)
            y.backward(g)
        if not first:
            pp.send(xs[i].grad, pp.rank - 1)
    for p in stage.parameters():
        all_reduce(dp, p.grad)
        p.grad /= global_batch_size
    if last:
        all_reduce(dp, total)
        return total.item() / global_batch_size
    return None
