# Right: part by part.
def layout_seconds(model, cluster, speed, layout):
    links = {}
    for axis in layout:
        links[axis] = cluster.intra
        for group in mesh_groups(layout, axis):
            if len({cluster.node_of(rank) for rank in group}) > 1:
                links[axis] = cluster.inter

    def all_reduce_seconds(axis, nbytes):
        n = layout[axis]
        return 2 * (n - 1) * (links[axis].latency + nbytes / (n * links[axis].bandwidth))

    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]
    parameters = 12 * model["layers"] * model["features"] ** 2 / (pp * tp)
    values = 2 * model["sequence"] * model["features"]
    compute = 6 * parameters * model["sequence"] / speed
    messages = model["layers"] / pp * 4 * all_reduce_seconds("tp", values)
    microbatches = model["batch"] / dp
    pipeline = (microbatches + pp - 1) * (compute + messages)
    between = 2 * (pp - 1) * (links["pp"].latency + values / links["pp"].bandwidth)
    return pipeline + between + all_reduce_seconds("dp", 2 * parameters)
