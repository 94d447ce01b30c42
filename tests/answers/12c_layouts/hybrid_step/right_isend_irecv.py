# Right: isend and irecv, all receives begun up front, handles waited for at the end.
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
    r, n = pp.rank, pp.world_size
    arriving = []
    if r > 0:
        for shape in shapes:
            buffer = torch.zeros(tuple(shape), dtype=torch.float64)
            arriving.append((buffer, pp.irecv(buffer, r - 1)))
    pending, kept = [], []
    for i in range(len(shapes)):
        if r > 0:
            x, handle = arriving[i]
            handle.wait()
            x.requires_grad_()
        else:
            x = inputs[i]
        y = stage(x)
        if r < n - 1:
            message = y.detach().clone()
            pending.append((pp.isend(message, r + 1), message))
        kept.append((x, y))
    coming = []
    if r < n - 1:
        for _, y in kept:
            g = torch.zeros_like(y, requires_grad=False)
            coming.append((g, pp.irecv(g, r + 1)))
    losses = []
    for i, (x, y) in enumerate(kept):
        if r < n - 1:
            g, handle = coming[i]
            handle.wait()
            torch.autograd.backward(y, g)
        else:
            losses.append(loss_function(y, targets[i]) / global_batch_size)
            losses[-1].backward()
        if r > 0:
            message = x.grad.clone()
            pending.append((pp.isend(message, r - 1), message))
    for handle, _ in pending:
        handle.wait()
    for p in stage.parameters():
        all_reduce(dp, p.grad)
    if r == n - 1:
        loss = sum(each.detach() for each in losses).reshape(1)
        all_reduce(dp, loss)
        return float(loss)
