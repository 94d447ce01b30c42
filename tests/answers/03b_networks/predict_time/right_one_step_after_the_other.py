# Right: a function for one step, and sums over the distances.
def predict_time(algorithm, nbytes, cluster):
    ranks, per_node, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes

    def step(message, distance):
        link = cluster.intra if distance < per_node else cluster.inter
        return link.latency + message / link.bandwidth

    def distances(count):
        return [2**k for k in range((count - 1).bit_length())]

    if algorithm == "ring":
        return 2 * (ranks - 1) * step(nbytes / ranks, ranks - 1)
    if algorithm == "tree":
        return 2 * sum(step(nbytes, d) for d in distances(ranks))
    if algorithm == "halving_doubling":
        power = 2 ** (ranks.bit_length() - 1)
        outside = 2 * step(nbytes, ranks - 1) if ranks > power else 0.0
        return 2 * sum(step(d * nbytes / power, d) for d in distances(power)) + outside
    chunk = nbytes / per_node
    between = 2 * sum(step(d * chunk / nodes, d * per_node) for d in distances(nodes))
    return 2 * (per_node - 1) * step(chunk, 1) + between
