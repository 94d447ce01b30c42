# Right: a flat loop with next(); keys are world ranks.
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total > comm.world_size or total < comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    mesh: dict[str, Communicator] = {}
    for axis in sizes:
        number = next(i for i, g in enumerate(mesh_groups(sizes, axis)) if comm.rank in g)
        mesh[axis] = comm.split(100 + number, key=comm.rank)
    return mesh
