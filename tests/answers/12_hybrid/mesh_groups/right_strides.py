# Right: neighbors are one stride apart.
def mesh_groups(sizes, axis):
    names, size, stride, total = list(sizes), sizes[axis], 1, 1
    for name in names[names.index(axis) + 1 :]:
        stride *= sizes[name]
    for name in names:
        total *= sizes[name]
    groups = []
    for start in range(0, total, stride * size):
        for first in range(start, start + stride):
            groups.append(list(range(first, first + stride * size, stride)))
    return groups
