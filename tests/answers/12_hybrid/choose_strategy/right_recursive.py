# Right: takes one axis after the other.
def layouts(axes, ranks, found):
    if not axes:
        return [found] if ranks == 1 else []
    name, number = axes[0]
    return [
        each
        for size in range(1, ranks + 1)
        if ranks % size == 0 and number % size == 0
        for each in layouts(axes[1:], ranks // size, {**found, name: size})
    ]


def choose_strategy(model, cluster, memory, speed):
    axes = [("dp", model["batch"]), ("pp", model["layers"]), ("tp", model["heads"])]
    everything = layouts(axes, cluster.world_size, {})
    everything.sort(key=lambda layout: layout_memory(model, layout))
    if layout_memory(model, everything[0]) > memory:
        raise ValueError(f"{layout_memory(model, everything[0]):.0f} bytes are needed")
    best = everything[0]
    for layout in everything[1:]:
        if layout_memory(model, layout) > memory:
            break
        if layout_seconds(model, cluster, speed, layout) < layout_seconds(model, cluster, speed, best):
            best = layout
    return best
