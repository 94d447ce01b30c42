# Right: itertools.product, groups collected in a dict.
from itertools import product


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    k = list(sizes).index(axis)
    found = {}
    for rank, where in enumerate(product(*map(range, sizes.values()))):
        found.setdefault(where[:k] + where[k + 1 :], []).append(rank)
    return list(found.values())
