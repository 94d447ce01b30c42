# Right: sums of squares, one number per message.
def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    square = torch.zeros(1, dtype=torch.float64)
    for g in sharded:
        square += (g * g).sum()
    all_reduce(mesh["tp"], square)
    for g in replicated:
        square += (g * g).sum()
    all_reduce(mesh["pp"], square)
    norm = square.item() ** 0.5
    if norm > max_norm:
        for g in [*sharded, *replicated]:
            g *= max_norm / norm
    return norm
