# Right: leaves the key out: then the old rank decides.
import math
from functools import reduce
from operator import mul


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    want = reduce(mul, sizes.values(), 1)
    if want != comm.size:
        raise ValueError(f"sizes multiply out to {want}, world size is {comm.size}")
    return {a: comm.split([comm.rank in g for g in mesh_groups(sizes, a)].index(True)) for a in sizes}
