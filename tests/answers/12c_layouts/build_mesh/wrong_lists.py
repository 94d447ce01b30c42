# Wrong: lists of ranks instead of communicators, no split. Loses all marks.
# Told: the keys are the names of the axes
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    ranks = torch.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    return sorted(ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist())


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    total = math.prod(sizes.values())
    if total != comm.world_size:
        raise ValueError(f"product {total}, world size {comm.world_size}")
    return {axis: next(g for g in mesh_groups(sizes, axis) if comm.rank in g) for axis in sizes}
