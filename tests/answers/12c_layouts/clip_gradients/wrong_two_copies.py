# Wrong: two copies of what is replicated along tp, whatever its size. Loses the hidden marks.
# Told: it is the root of the sum of the squares of all gradients
def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    def squares(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
        return sum((each.square().sum() for each in gradients), torch.zeros(1).double())

    copies = 1 if mesh["tp"].world_size == 1 else 2
    total = squares(sharded) + squares(replicated) / copies
    for axis in ("tp", "pp"):
        all_reduce(mesh[axis], total)
    norm = total.sqrt().item()
    if norm > max_norm:
        for each in (*sharded, *replicated):
            each *= max_norm / norm
    return norm
