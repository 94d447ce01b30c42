# Wrong: looks only at the first group of the axis. Loses the hidden marks.
# Told: the groups of tp use the link
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]

    def link(axis):
        group = mesh_groups(layout, axis)[0]
        return cluster.link(group[0], group[-1])

    def ring(n, nbytes, link):
        return 2 * (n - 1) * (link.latency + nbytes / (n * link.bandwidth))

    parameters = 12 * model["layers"] * model["features"] ** 2 / (pp * tp)
    values = 2 * model["sequence"] * model["features"]
    m = model["batch"] / dp
    c = 6 * parameters * model["sequence"] / speed
    t = model["layers"] / pp * 4 * ring(tp, values, link("tp"))
    along_pp = link("pp")
    seconds = (m + pp - 1) * (c + t)
    seconds += 2 * (pp - 1) * (along_pp.latency + values / along_pp.bandwidth)
    seconds += ring(dp, 2 * parameters, link("dp"))
    return seconds
