# Right: dict comprehension of links, Link.seconds.
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    links = {
        axis: cluster.inter
        if any(cluster.node_of(g[0]) != cluster.node_of(r) for g in mesh_groups(layout, axis) for r in g)
        else cluster.intra
        for axis in layout
    }
    n = layout
    P = 12 * model["layers"] * model["features"] ** 2 / (n["pp"] * n["tp"])
    V = 2 * model["sequence"] * model["features"]

    def reduce(axis, size):
        return 2 * (n[axis] - 1) * links[axis].seconds(size / n[axis])

    step = 6 * P * model["sequence"] / speed + 4 * (model["layers"] // n["pp"]) * reduce("tp", V)
    rounds = model["batch"] // n["dp"] + n["pp"] - 1
    return sum([rounds * step, 2 * (n["pp"] - 1) * links["pp"].seconds(V), reduce("dp", 2 * P)])
