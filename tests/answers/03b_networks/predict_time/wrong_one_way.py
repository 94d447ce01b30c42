# Wrong: forgets that an all-reduce goes two ways. Loses all marks.
# Told: An all-reduce goes two ways
def predict_time(algorithm, nbytes, cluster):
    ranks, per_node, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes

    def step(message, distance):
        link = cluster.intra if distance < per_node else cluster.inter
        return link.latency + message / link.bandwidth

    def distances(count):
        return [2**k for k in range((count - 1).bit_length())]

    if algorithm == "ring":
        return (ranks - 1) * step(nbytes / ranks, ranks - 1)
    if algorithm == "tree":
        return sum(step(nbytes, d) for d in distances(ranks))
    if algorithm == "halving_doubling":
        power = 2 ** (ranks.bit_length() - 1)
        outside = step(nbytes, ranks - 1) if ranks > power else 0.0
        return sum(step(d * nbytes / power, d) for d in distances(power)) + outside
    chunk = nbytes / per_node
    between = sum(step(d * chunk / nodes, d * per_node) for d in distances(nodes))
    return (per_node - 1) * step(chunk, 1) + between
