# Wrong: m is the whole batch. Loses all marks.
# Told: a replica has batch / dp microbatches
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]

    def link(axis):
        for group in mesh_groups(layout, axis):
            if len({cluster.node_of(rank) for rank in group}) > 1:
                return cluster.inter
        return cluster.intra

    def ring(n, nbytes, link):
        return 2 * (n - 1) * (link.latency + nbytes / (n * link.bandwidth))

    parameters = 12 * model["layers"] * model["features"] ** 2 / (pp * tp)
    values = 2 * model["sequence"] * model["features"]
    m = model["batch"]
    c = 6 * parameters * model["sequence"] / speed
    t = model["layers"] / pp * 4 * ring(tp, values, link("tp"))
    along_pp = link("pp")
    seconds = (m + pp - 1) * (c + t)
    seconds += 2 * (pp - 1) * (along_pp.latency + values / along_pp.bandwidth)
    seconds += ring(dp, 2 * parameters, link("dp"))
    return seconds
