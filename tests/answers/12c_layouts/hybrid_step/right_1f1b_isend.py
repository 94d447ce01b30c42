# Right: 1F1B with isend; right by the docstring, though the text above it says GPipe's order.
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
    tape, handles, total = {}, [], torch.zeros(1, dtype=torch.float64)

    def forward(i):
        x = inputs[i] if first else torch.empty(tuple(shapes[i]), dtype=torch.float64)
        if not first:
            pp.recv(x, pp.rank - 1)
            x.requires_grad_()
        y = stage(x)
        tape[i] = (x, y)
        if not last:
            handles.append(pp.isend(y.detach(), pp.rank + 1))

    def backward(i):
        x, y = tape[i]
        if last:
            loss = loss_function(y, targets[i]) / global_batch_size
            loss.backward()
            total.add_(loss.detach())
        else:
            g = torch.empty_like(y)
            pp.recv(g, pp.rank + 1)
            y.backward(g)
        if not first:
            handles.append(pp.isend(x.grad, pp.rank - 1))

    m = len(shapes)
    ahead = min(m, pp.world_size - 1 - pp.rank)
    for i in range(ahead):
        forward(i)
    for i in range(ahead, m):
        forward(i)
        backward(i - ahead)
    for i in range(m - ahead, m):
        backward(i)
    for handle in handles:
        handle.wait()
    for p in stage.parameters():
        all_reduce(dp, p.grad)
    if last:
        all_reduce(dp, total)
        return total.item()
    return None
