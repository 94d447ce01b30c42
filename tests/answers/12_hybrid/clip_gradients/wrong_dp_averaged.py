# Wrong: averages over dp: the right norm by messages that nobody needs. Loses all marks.
# Told: replicas have the same gradients. Nothing is
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
    all_reduce(mesh["dp"], square)
    square /= mesh["dp"].world_size
    norm = square.item() ** 0.5
    if norm > max_norm:
        for g in [*sharded, *replicated]:
            g *= max_norm / norm
    return norm
