# Wrong: in "hierarchical", the columns halve and double between all N ranks instead of the nodes. Loses all marks.
# Told: the part between the nodes counts all ranks
def predict_time(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    n, g = cluster.world_size, cluster.ranks_per_node
    link = cluster.intra if cluster.nodes == 1 else cluster.inter

    def message(link, size):
        return link.latency + size / link.bandwidth

    def link_at(d):
        return cluster.intra if cluster.nodes == 1 or d < g else cluster.inter

    def distances(limit):
        return [2**k for k in range((limit - 1).bit_length())]

    if algorithm == "ring":
        return 2 * (n - 1) * message(link, nbytes / n)
    if algorithm == "tree":
        return 2 * sum(message(link_at(d), nbytes) for d in distances(n))
    if algorithm == "halving_doubling":
        p = 2 ** (n.bit_length() - 1)
        total = 2 * sum(message(link_at(d), nbytes * d / p) for d in distances(p))
        if p != n:
            total += 2 * message(link, nbytes)
        return total
    if algorithm == "hierarchical":
        total = 2 * (g - 1) * message(cluster.intra, nbytes / g)
        for d in distances(n):
            total += 2 * message(cluster.inter, nbytes / g * d / n)
        return total
