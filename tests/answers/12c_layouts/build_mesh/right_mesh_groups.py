# Right: by mesh_groups, the first rank of the group as its color.
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    product = math.prod(sizes.values())
    if product != comm.world_size:
        raise ValueError(f"the mesh {dict(sizes)} has {product} ranks, but there are {comm.world_size}")
    mesh = {}
    for axis in sizes:
        for group in mesh_groups(sizes, axis):
            if comm.rank in group:
                mesh[axis] = comm.split(group[0], group.index(comm.rank))
    return mesh
