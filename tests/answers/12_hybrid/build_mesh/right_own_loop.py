# Right: a flat loop with next(); keys are world ranks.
import math


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total > comm.world_size or total < comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    mesh: dict[str, Communicator] = {}
    for axis in sizes:
        number = next(i for i, g in enumerate(mesh_groups(sizes, axis)) if comm.rank in g)
        mesh[axis] = comm.split(100 + number, key=comm.rank)
    return mesh
