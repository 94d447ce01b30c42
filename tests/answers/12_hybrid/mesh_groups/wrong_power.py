# Wrong: the stride is a power of the axis's own size. Loses all marks.
# Told: each rank is in one group of
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    names = list(sizes)
    n = sizes[axis]
    stride = n ** (len(names) - 1 - names.index(axis))
    return [[r + k * stride for k in range(n)] for r in range(math.prod(sizes.values())) if (r // stride) % n == 0]
