# Wrong: assert instead of ValueError. Loses all marks.
# Told: an assert of your own does not
import math


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    assert total == comm.world_size, f"product {total}, world size {comm.world_size}"
    mesh = {}
    for axis in sizes:
        for group in mesh_groups(sizes, axis):
            if comm.rank in group:
                mesh[axis] = comm.split(group[0], group.index(comm.rank))
    return mesh
