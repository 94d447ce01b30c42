# Wrong: remembers the time of each algorithm, for whatever size and cluster. Loses all marks.
# Told: right on its own, but not after other calls
TIMES = {}


def predict_time(algorithm, nbytes, cluster):
    if algorithm not in TIMES:
        TIMES[algorithm] = seconds(algorithm, nbytes, cluster)
    return TIMES[algorithm]


def seconds(algorithm, nbytes, cluster):
    n, per, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes

    def step(size, distance):
        link = cluster.intra if distance < per else cluster.inter
        return link.latency + size / link.bandwidth

    if algorithm == "ring":
        return 2 * (n - 1) * step(nbytes / n, n - 1)
    if algorithm == "tree":
        return 2 * sum(step(nbytes, 1 << k) for k in range((n - 1).bit_length()))
    if algorithm == "halving_doubling":
        p = 1 << (n.bit_length() - 1)
        pairs = 2 * sum(step(nbytes * (1 << k) / p, 1 << k) for k in range((p - 1).bit_length()))
        return pairs + (2 * step(nbytes, n - 1) if n > p else 0)
    inside = 2 * (per - 1) * step(nbytes / per, 1)
    return inside + 2 * sum(step(nbytes / per * (1 << k) / nodes, per << k) for k in range((nodes - 1).bit_length()))
