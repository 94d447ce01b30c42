# Right: sorts ranks by all coordinates but one.
def mesh_groups(sizes, axis):
    world_size = 1
    for size in sizes.values():
        world_size *= size
    groups = {}
    for rank in range(world_size):
        rest, others = rank, []
        for name in reversed(list(sizes)):
            if name != axis:
                others.append(rest % sizes[name])
            rest //= sizes[name]
        groups.setdefault(tuple(others), []).append(rank)
    return sorted(groups.values())
