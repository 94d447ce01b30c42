# Right: the link by arithmetic with strides, without mesh_groups.
def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    tp, pp, dp = layout["tp"], layout["pp"], layout["dp"]
    per_node = cluster.ranks_per_node

    def link_of(stride, n):
        block = stride * n  # ranks i, i + stride, … of one block; some group is cut where a node ends inside a block
        return cluster.inter if n > 1 and cluster.nodes > 1 and per_node % block != 0 else cluster.intra

    ltp, lpp, ldp = link_of(1, tp), link_of(tp, pp), link_of(tp * pp, dp)
    p = 12 * model["layers"] * model["features"] ** 2 / pp / tp
    v = 2 * model["sequence"] * model["features"]
    total = 0.0
    micro = 6 * p * model["sequence"] / speed
    micro += (model["layers"] / pp) * 4 * 2 * (tp - 1) * (ltp.latency + v / tp / ltp.bandwidth)
    total += (model["batch"] / dp + pp - 1) * micro
    total += 2 * (pp - 1) * (lpp.latency + v / lpp.bandwidth)
    total += 2 * (dp - 1) * (ldp.latency + 2 * p / dp / ldp.bandwidth)
    return total
