# Right: a function for each row of the table.
def spans(cluster, group):
    return min(map(cluster.node_of, group)) < max(map(cluster.node_of, group))


def layout_seconds(model, cluster, speed, layout):
    layers = model["layers"] // layout["pp"]
    mine = 12 * layers * model["features"] ** 2 / layout["tp"]
    nbytes = model["sequence"] * model["features"] * 2

    def link(axis):
        return (
            cluster.inter if any(spans(cluster, group) for group in mesh_groups(dict(layout), axis)) else cluster.intra
        )

    def ring(axis, size):
        steps = 2 * (layout[axis] - 1)
        return steps * link(axis).latency + steps * size / layout[axis] / link(axis).bandwidth

    def microbatch():
        return 6 * mine * model["sequence"] / speed + 4 * layers * ring("tp", nbytes)

    m = model["batch"] // layout["dp"]
    last = m * microbatch()
    bubble = (layout["pp"] - 1) * microbatch()
    sends = (layout["pp"] - 1) * 2 * (link("pp").latency + nbytes / link("pp").bandwidth)
    return last + bubble + sends + ring("dp", mine * 2)
