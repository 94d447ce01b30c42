# Right: the longest chunk in each round, a tuple of bytes in a list, and nodes told apart by hand.
def predict_step(numbers, seconds_per_sample, cluster, shares):
    ranks = cluster.world_size
    parts = [len(part) for part in torch.arange(numbers).tensor_split(ranks)]
    link = [cluster.intra] * (cluster.ranks_per_node > 1) + [cluster.inter] * (cluster.nodes > 1)
    times = [n * seconds_per_sample * dict(cluster.stragglers).get(r, 1) for r, n in enumerate(shares)]
    ring = sum(max(each.seconds(8 * parts[0]) for each in link) for _ in range(2 * (ranks - 1)))
    return max(times) + ring, [8 * numbers + 16 * part for part in parts]
