# Right: recursion over the axes.
def _walk(axes, axis, start):
    if not axes:
        return [[start]]
    (name, size), rest = axes[0], axes[1:]
    step = 1
    for _, s in rest:
        step *= s
    branches = [_walk(rest, axis, start + i * step) for i in range(size)]
    if name != axis:
        return [group for branch in branches for group in branch]
    return [[rank for part in parts for rank in part] for parts in zip(*branches)]


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    return _walk(list(sizes.items()), axis, 0)
