# Right: sorts by time and takes the first that fits.
def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    world = cluster.world_size
    every = [
        {"dp": world // (p * t), "pp": p, "tp": t}
        for t in range(1, min(world, model["heads"]) + 1)
        for p in range(1, min(world, model["layers"]) + 1)
        if world % (p * t) == 0
        and model["layers"] % p == 0
        and model["heads"] % t == 0
        and model["batch"] % (world // (p * t)) == 0
    ]
    every.sort(key=lambda layout: layout_seconds(model, cluster, speed, layout))
    for layout in every:
        if layout_memory(model, layout) <= memory:
            return layout
    smallest = min(every, key=lambda layout: layout_memory(model, layout))
    raise ValueError(f"needs {layout_memory(model, smallest):.0f} bytes with {smallest}")
