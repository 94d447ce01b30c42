# Right: one flat vector of each kind, torch.linalg.
def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    def flat(tensors):
        return torch.cat([torch.zeros(1, dtype=torch.float64)] + [t.reshape(-1) for t in tensors])

    total = torch.linalg.vector_norm(flat(sharded)).square()
    all_reduce(mesh["tp"], total)
    total += torch.linalg.vector_norm(flat(replicated)).square()
    all_reduce(mesh["pp"], total)
    norm = total.sqrt()
    if norm > max_norm:
        torch._foreach_mul_(
            list(sharded) + list(replicated), (max_norm / norm).item()
        ) if sharded or replicated else None
    return float(norm)
