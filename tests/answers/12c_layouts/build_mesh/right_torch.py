# Right: torch: the coordinates by nonzero.
import math


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    shape = list(sizes.values())
    if math.prod(shape) != comm.world_size:
        raise ValueError(f"sizes {shape} have product {math.prod(shape)}, expected world size {comm.world_size}")
    grid = torch.arange(comm.world_size).reshape(shape)
    where = (grid == comm.rank).nonzero()[0].tolist()
    out = dict.fromkeys(sizes)
    for i, name in enumerate(out):
        color = grid.select(i, 0)[tuple(where[:i] + where[i + 1 :])].item()
        out[name] = comm.split(color, where[i])
    return out
