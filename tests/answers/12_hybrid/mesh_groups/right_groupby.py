# Right: sort and itertools.groupby.
import math
from itertools import groupby


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    seq = list(sizes)
    low = math.prod(sizes[a] for a in seq[seq.index(axis) + 1 :])
    high = low * sizes[axis]

    def first(r):
        return r // high * high + r % low

    everyone = sorted(range(math.prod(sizes.values())), key=lambda r: (first(r), r))
    return [list(g) for _, g in groupby(everyone, key=first)]
