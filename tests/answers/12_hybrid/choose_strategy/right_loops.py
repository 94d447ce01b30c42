# Right: three loops, keeps the best so far.
def choose_strategy(model, cluster, memory, speed):
    ranks, best, least = cluster.world_size, None, None
    for tp in range(1, ranks + 1):
        if model["heads"] % tp or ranks % tp:
            continue
        for pp in range(1, ranks // tp + 1):
            if model["layers"] % pp or ranks % (tp * pp):
                continue
            dp = ranks // (tp * pp)
            if model["batch"] % dp:
                continue
            layout = {"dp": dp, "pp": pp, "tp": tp}
            needed = layout_memory(model, layout)
            least = needed if least is None else min(least, needed)
            if needed <= memory:
                seconds = layout_seconds(model, cluster, speed, layout)
                if best is None or seconds < best[0]:
                    best = seconds, layout
    if best is None:
        raise ValueError(f"nothing fits: {round(least)} bytes are needed, there are {memory:.0f}")
    return best[1]
