# Right: three loops, min by key.
def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    n = cluster.world_size
    layouts = []
    for dp in range(1, n + 1):
        for pp in range(1, n + 1):
            for tp in range(1, n + 1):
                if (
                    dp * pp * tp == n
                    and model["heads"] % tp == 0
                    and model["layers"] % pp == 0
                    and model["batch"] % dp == 0
                ):
                    layouts.append({"dp": dp, "pp": pp, "tp": tp})
    fits = [layout for layout in layouts if layout_memory(model, layout) <= memory]
    if not fits:
        least = min(layout_memory(model, layout) for layout in layouts)
        raise ValueError(f"no layout fits: {round(least)} bytes are needed, there are {memory}")
    return min(fits, key=lambda layout: layout_seconds(model, cluster, speed, layout))
