# Right: a class for what an axis costs.
class Axis:
    def __init__(self, cluster, layout, name):
        self.size = layout[name]
        crossing = False
        for group in mesh_groups(layout, name):
            nodes = [cluster.node_of(r) for r in group]
            crossing = crossing or min(nodes) != max(nodes)
        self.link = cluster.inter if crossing else cluster.intra

    def all_reduce(self, nbytes):
        return 2 * (self.size - 1) * (self.link.latency + nbytes / self.size / self.link.bandwidth)

    def there_and_back(self, nbytes):
        return 2 * (self.size - 1) * (self.link.latency + nbytes / self.link.bandwidth)


def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    dp, pp, tp = (Axis(cluster, layout, name) for name in ("dp", "pp", "tp"))
    layers = model["layers"] / pp.size
    own = 12 * layers * model["features"] ** 2 / tp.size
    between = 2 * model["sequence"] * model["features"]
    one = 6 * own * model["sequence"] / speed + 4 * layers * tp.all_reduce(between)
    return (model["batch"] / dp.size + pp.size - 1) * one + pp.there_and_back(between) + dp.all_reduce(2 * own)
