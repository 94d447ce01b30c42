# Right: the pipeline's time by counting when each stage is done.
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    def slow(axis):
        return any(len(set(map(cluster.node_of, g))) > 1 for g in mesh_groups(layout, axis))

    def ring(axis, nbytes):
        link = cluster.inter if slow(axis) else cluster.intra
        steps = 2 * (layout[axis] - 1)
        return sum(link.latency + nbytes / layout[axis] / link.bandwidth for _ in range(steps))

    p = 12 * model["layers"] * model["features"] ** 2 / (layout["pp"] * layout["tp"])
    v = 2 * model["sequence"] * model["features"]
    one = 6 * p * model["sequence"] / speed + sum(ring("tp", v) for _ in range(4)) * model["layers"] / layout["pp"]
    done = [0.0] * (layout["pp"] + 1)
    for _ in range(model["batch"] // layout["dp"]):
        for stage in range(layout["pp"]):
            done[stage + 1] = max(done[stage], done[stage + 1]) + one
    hop = (cluster.inter if slow("pp") else cluster.intra).seconds(v)
    return done[-1] + 2 * (layout["pp"] - 1) * hop + ring("dp", 2 * p)
