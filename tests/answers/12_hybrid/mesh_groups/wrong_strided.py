# Wrong: always the largest stride, as if the axis were the first. Loses all marks.
# Told: these ranks differ along another axis. The
import math


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    total = math.prod(sizes.values())
    count = total // sizes[axis]
    return [list(range(i, total, count)) for i in range(count)]
