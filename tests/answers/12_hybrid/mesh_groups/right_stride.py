# Right: arithmetic with a stride.
def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    names = list(sizes)
    stride = 1
    for name in names[names.index(axis) + 1 :]:
        stride *= sizes[name]
    total = 1
    for name in names:
        total *= sizes[name]
    size = sizes[axis]
    return [[first + stride * k for k in range(size)] for first in range(total) if first // stride % size == 0]
