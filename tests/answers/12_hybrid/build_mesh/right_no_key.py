# Right: leaves the key out: then the old rank decides.
from functools import reduce
from operator import mul


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    want = reduce(mul, sizes.values(), 1)
    if want != comm.size:
        raise ValueError(f"sizes multiply out to {want}, world size is {comm.size}")
    return {a: comm.split([comm.rank in g for g in mesh_groups(sizes, a)].index(True)) for a in sizes}
