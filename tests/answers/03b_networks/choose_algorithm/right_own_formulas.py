# Right: with formulas of its own, and without predict_time.
def seconds(algorithm, nbytes, cluster):
    ranks, per_node, nodes = cluster.world_size, cluster.ranks_per_node, cluster.nodes

    def step(message, distance):
        return (cluster.intra if distance < per_node else cluster.inter).seconds(message)

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


def choose_algorithm(nbytes, cluster, algorithms):
    best = algorithms[0]
    for name in algorithms[1:]:
        if seconds(name, nbytes, cluster) < seconds(best, nbytes, cluster):
            best = name
    return best
