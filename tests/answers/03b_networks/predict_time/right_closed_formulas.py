# Right: closed formulas with logarithms, for nodes and for ranks on a node.
import math


def predict_time(algorithm, nbytes, cluster):
    n, g, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes
    a, b = cluster.intra.latency, 1 / cluster.intra.bandwidth
    a2, b2 = (cluster.inter.latency, 1 / cluster.inter.bandwidth) if nodes > 1 else (a, b)
    if n == 1:
        return 0
    if algorithm == "ring":
        return 2 * (n - 1) * (a2 + nbytes / n * b2)
    if algorithm == "tree":
        return 2 * math.ceil(math.log2(g)) * (a + nbytes * b) + 2 * round(math.log2(nodes)) * (a2 + nbytes * b2)
    if algorithm == "halving_doubling" and nodes == 1:
        log = math.floor(math.log2(n))
        p = 2**log
        return 2 * log * a + 2 * (p - 1) / p * nbytes * b + (2 * (a + nbytes * b) if n != p else 0)
    if algorithm == "halving_doubling":
        inside = math.log2(g) * a + (g - 1) / n * nbytes * b
        return 2 * (inside + math.log2(nodes) * a2 + (n - g) / n * nbytes * b2)
    inside = 2 * (g - 1) * (a + nbytes / g * b)
    return inside + 2 * math.log2(nodes) * a2 + 2 * (nodes - 1) / nodes * nbytes / g * b2
