# Wrong: the latency is paid once and not in every step. Loses all marks.
# Told: the latency is counted once
def predict_time(algorithm, nbytes, cluster):
    ranks, per_node, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes
    if ranks == 1:
        return 0.0

    def step(message, distance):
        link = cluster.intra if distance < per_node else cluster.inter
        return message / link.bandwidth

    def distances(count):
        return [2**k for k in range((count - 1).bit_length())]

    latency = cluster.inter.latency if nodes > 1 else cluster.intra.latency
    if algorithm == "ring":
        return latency + 2 * (ranks - 1) * step(nbytes / ranks, ranks - 1)
    if algorithm == "tree":
        return latency + 2 * sum(step(nbytes, d) for d in distances(ranks))
    if algorithm == "halving_doubling":
        power = 2 ** (ranks.bit_length() - 1)
        outside = 2 * step(nbytes, ranks - 1) if ranks > power else 0.0
        return latency + 2 * sum(step(d * nbytes / power, d) for d in distances(power)) + outside
    chunk = nbytes / per_node
    between = 2 * sum(step(d * chunk / nodes, d * per_node) for d in distances(nodes))
    return latency + 2 * (per_node - 1) * step(chunk, 1) + between
