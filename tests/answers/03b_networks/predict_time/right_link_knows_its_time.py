# Right: link.seconds and the methods of the cluster, which say which link is used.
from distlib import Cluster


def powers(below):
    power = 1
    while power < below:
        yield power
        power *= 2


def predict_time(algorithm, nbytes, cluster):
    n = cluster.world_size
    if algorithm == "ring":
        return 2 * (n - 1) * cluster.slowest_link().seconds(nbytes / n)
    if algorithm == "tree":
        return 2 * sum(cluster.link(0, d).seconds(nbytes) for d in powers(n))
    if algorithm == "halving_doubling":
        p = max([1, *(2 * d for d in powers(n) if 2 * d <= n)])
        inner = 2 * sum(cluster.link(0, d).seconds(nbytes * d / p) for d in powers(p))
        return inner if p == n else inner + 2 * cluster.slowest_link().seconds(nbytes)
    g = cluster.ranks_per_node
    nodes = Cluster(cluster.nodes, 1, cluster.intra, cluster.inter)
    return predict_time("ring", nbytes, Cluster.flat(g, cluster.intra)) + predict_time(
        "halving_doubling", nbytes / g, nodes
    )
