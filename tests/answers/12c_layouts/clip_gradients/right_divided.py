# Right: a tp-th of the replicated squares on every rank.
import numpy as np


def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    n = mesh["tp"].world_size
    mine = sum(float(np.sum(np.square(g.numpy()))) for g in sharded)
    mine += sum(float(np.sum(np.square(g.numpy()))) for g in replicated) / n
    box = torch.full((1,), mine, dtype=torch.float64)
    all_reduce(mesh["pp"], box)
    all_reduce(mesh["tp"], box)
    norm = float(np.sqrt(box.numpy()[0]))
    factor = min(1.0, max_norm / norm) if norm else 1.0
    if factor < 1:
        for g in sharded:
            g.copy_(g * factor)
        for g in replicated:
            g.copy_(g * factor)
    return norm
