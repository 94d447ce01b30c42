# Right: two numbers in one message: along tp, then along pp.
def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    def squares(tensors):
        return sum((t.pow(2).sum() for t in tensors), torch.tensor(0.0, dtype=torch.float64))

    pair = torch.stack([squares(sharded), squares(replicated)])
    all_reduce(mesh["tp"], pair)
    pair[1] /= mesh["tp"].size
    all_reduce(mesh["pp"], pair)
    norm = pair.sum().sqrt().item()
    if not norm <= max_norm:
        for t in list(sharded) + list(replicated):
            t.mul_(max_norm).div_(norm)
    return norm
