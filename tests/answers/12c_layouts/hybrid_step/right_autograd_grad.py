# Right: torch.autograd.grad, sums kept by hand, tags by microbatch.
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
    left, right = pp.rank - 1, pp.rank + 1
    last = right == pp.world_size
    weights = [*stage.parameters()]
    sums = [torch.zeros_like(w, requires_grad=False) for w in weights]
    tape, loss = {}, torch.zeros(1, dtype=torch.float64)
    for m, shape in enumerate(shapes):
        x = inputs[m] if left < 0 else torch.zeros(tuple(shape)).double()
        if left >= 0:
            pp.recv(x, left, tag=2 * m)
            x.requires_grad_()
        tape[m] = x, stage(x)
        if not last:
            pp.send(tape[m][1].detach(), right, tag=2 * m)
    for m in sorted(tape):
        x, y = tape[m]
        seed = None
        if last:
            y = loss_function(y, targets[m]) / global_batch_size
            loss += y.detach()
        else:
            seed = torch.zeros_like(y.detach())
            pp.recv(seed, right, tag=2 * m + 1)
        wanted = weights if left < 0 else [*weights, x]
        got = torch.autograd.grad(y, wanted, seed)
        for s, g in zip(sums, got):
            s.add_(g)
        if left >= 0:
            pp.send(got[-1], left, tag=2 * m + 1)
    for w, s in zip(weights, sums):
        all_reduce(dp, s)
        w.grad = s
    if last:
        all_reduce(dp, loss)
        return loss.item()
    return None
