# Wrong: the stride is the sum of the later sizes, not the product. Loses the hidden marks.
# Told: each rank is in one group of
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    names = list(sizes)
    stride = sum(sizes[n] for n in names[names.index(axis) + 1 :]) or 1
    n = sizes[axis]
    return [[r + k * stride for k in range(n)] for r in range(math.prod(sizes.values())) if (r // stride) % n == 0]
