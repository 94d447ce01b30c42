# Right: needs no groups: looks at both ends of each; Link.seconds for one message.
def layout_seconds(model, cluster, speed, layout):
    stride, link = 1, {}
    for axis in ("tp", "pp", "dp"):
        reach = (layout[axis] - 1) * stride
        firsts = [rank for rank in range(cluster.world_size) if rank // stride % layout[axis] == 0]
        is_inside = all(cluster.node_of(rank) == cluster.node_of(rank + reach) for rank in firsts)
        link[axis] = cluster.intra if is_inside else cluster.inter
        stride *= layout[axis]
    own = 12 * model["features"] ** 2 * model["layers"] / layout["pp"] / layout["tp"]
    v = 2 * model["features"] * model["sequence"]
    ring = {
        axis: lambda size, axis=axis: 2 * (layout[axis] - 1) * link[axis].seconds(size / layout[axis]) for axis in link
    }
    one = 6 * own * model["sequence"] / speed + 4 * (model["layers"] // layout["pp"]) * ring["tp"](v)
    total = sum(one for _ in range(model["batch"] // layout["dp"] + layout["pp"] - 1))
    for _ in range(layout["pp"] - 1):
        total += 2 * link["pp"].seconds(v)
    return total + ring["dp"](2 * own)
