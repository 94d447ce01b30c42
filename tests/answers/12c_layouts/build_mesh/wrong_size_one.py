# Wrong: an axis of one rank gets the whole communicator. Loses the hidden marks.
# Told: there is one rank, so each rank is a group
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total != comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    mesh = {}
    for axis, size in sizes.items():
        if size == 1:
            mesh[axis] = comm
            continue
        mine = next(g for g in mesh_groups(sizes, axis) if comm.rank in g)
        mesh[axis] = comm.split(mine[0], mine.index(comm.rank))
    return mesh
