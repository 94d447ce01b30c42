# Wrong: tries at most four replicas. Loses the hidden marks.
# Told: a faster layout fits, too.
def choose_strategy(model, cluster, memory, speed):
    n, layouts = cluster.world_size, []
    for dp in range(1, min(n, 4) + 1):
        for pp in range(1, n // dp + 1):
            tp = n // (dp * pp)
            if (
                dp * pp * tp == n
                and model["heads"] % tp == 0
                and model["layers"] % pp == 0
                and model["batch"] % dp == 0
            ):
                layouts.append({"dp": dp, "pp": pp, "tp": tp})
    least = min(layout_memory(model, layout) for layout in layouts)
    if least > memory:
        raise ValueError(f"no layout fits: at least {round(least)} bytes are needed")
    return min(
        (layout for layout in layouts if layout_memory(model, layout) <= memory),
        key=lambda layout: layout_seconds(model, cluster, speed, layout),
    )
