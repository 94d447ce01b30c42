# Right: only the first rank of tp counts the replicated ones.
import math


def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    own = list(sharded) + (list(replicated) if mesh["tp"].rank == 0 else [])
    total = torch.tensor(sum(g.square().sum().item() for g in own), dtype=torch.float64)
    for axis in "tp", "pp":
        all_reduce(mesh[axis], total)
    norm = math.sqrt(total)
    if norm > max_norm:
        for g in (*sharded, *replicated):
            g.mul_(max_norm / norm)
    return norm
