# Wrong: splits the group of the axis before, not the world. Loses all marks.
# Told: ranks come together that give the same
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total != comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    mesh, rank, group = {}, comm.rank, comm
    for axis in sizes:
        mine = next(g for g in mesh_groups(sizes, axis) if rank in g)
        group = group.split(mine[0], mine.index(rank))
        mesh[axis] = group
    return mesh
