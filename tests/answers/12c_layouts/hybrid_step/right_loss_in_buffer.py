# Right: one flat buffer for the gradients, on the last stage with the loss at its end.
def hybrid_step(
    mesh: Mapping[str, Communicator],
    stage: torch.nn.Module,
    shapes: Sequence[Sequence[int]],
    inputs: Sequence[torch.Tensor] | None,
    targets: Sequence[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    global_batch_size: int,
) -> float | None:
    pp = mesh["pp"]
    first, last = pp.rank == 0, pp.rank == pp.size - 1
    done = []
    for number, shape in enumerate(shapes):
        values = inputs[number] if first else torch.empty(*shape, dtype=torch.float64)
        if not first:
            pp.recv(values, src=pp.rank - 1)
            values.requires_grad_(True)
        result = stage(values)
        if not last:
            pp.send(result.detach(), dst=pp.rank + 1)
        done.append((values, result))
    loss = torch.zeros(1, dtype=torch.float64)
    for number, (values, result) in enumerate(done):
        if last:
            one = loss_function(result, targets[number]) / global_batch_size
            one.backward()
            loss += one.detach()
        else:
            gradient = torch.empty(*shapes[number], dtype=torch.float64)
            pp.recv(gradient, src=pp.rank + 1)
            result.backward(gradient)
        if not first:
            pp.send(values.grad, dst=pp.rank - 1)
    parameters = list(stage.parameters())
    pieces = [p.grad.reshape(-1) for p in parameters] + ([loss] if last else [])
    buffer = torch.cat(pieces)
    all_reduce(mesh["dp"], buffer)
    for p, piece in zip(parameters, buffer.split([len(each) for each in pieces])):
        p.grad.copy_(piece.view(p.shape))
    return buffer[-1].item() if last else None
