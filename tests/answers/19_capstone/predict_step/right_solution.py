# Right: the course's own.
def predict_step(
    numbers: int, seconds_per_sample: float, cluster: Cluster, shares: Sequence[int]
) -> tuple[float, list[int]]:
    ranks = len(shares)
    slowness = [cluster.stragglers.get(rank, 1.0) for rank in range(ranks)]
    slowest = max(share * seconds_per_sample * slow for share, slow in zip(shares, slowness))
    rounds = [cluster.link(rank, (rank + 1) % ranks).seconds(8 * numbers / ranks) for rank in range(ranks)]
    parts = [part_of(numbers, ranks, rank) for rank in range(ranks)]
    memory = [8 * numbers + 16 * (part.stop - part.start) for part in parts]
    return slowest + 2 * (ranks - 1) * max(rounds), memory
