# Right: the course's own.
def predict_step(
    numbers: int, seconds_per_sample: float, cluster: Cluster, shares: Sequence[int]
) -> tuple[float, list[int]]:
    """Seconds of a step, and the bytes that each rank holds between two steps.

    Args:
        numbers: of the weights.
        seconds_per_sample: on a rank that is not slow.
        cluster: its links, and in `stragglers` how many times longer a slow rank computes; other ranks are not in it.
        shares: by rank, how many samples it takes. Some may be 0.
    """
    ranks = len(shares)
    slowest = max(share * seconds_per_sample * cluster.stragglers.get(rank, 1.0) for rank, share in enumerate(shares))
    rounds = [cluster.link(rank, (rank + 1) % ranks).seconds(8 * numbers / ranks) for rank in range(ranks)]
    parts = [part_of(numbers, ranks, rank) for rank in range(ranks)]
    memory = [8 * numbers + 16 * (part.stop - part.start) for part in parts]
    return slowest + 2 * (ranks - 1) * max(rounds), memory
