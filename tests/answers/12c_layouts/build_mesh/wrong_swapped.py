# Wrong: color and key swapped: the coordinate as the color. Loses all marks.
# Told: here the ranks of a group have
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total != comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    mesh = {}
    for axis in sizes:
        for number, group in enumerate(mesh_groups(sizes, axis)):
            if comm.rank in group:
                mesh[axis] = comm.split(group.index(comm.rank), number)
    return mesh
