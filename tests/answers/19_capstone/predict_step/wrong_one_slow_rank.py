# Wrong: knows one slow rank. Loses the hidden marks.
# Told: cluster.stragglers says how many times longer a rank computes.
def predict_step(numbers, seconds_per_sample, cluster, shares):
    p = len(shares)
    computing = max(
        share * seconds_per_sample * dict(list(cluster.stragglers.items())[:1]).get(r, 1)
        for r, share in enumerate(shares)
    )
    rounds = 2 * (p - 1) * max(cluster.link(r, (r + 1) % p).seconds(8 * numbers / p) for r in range(p)) if p > 1 else 0
    parts = [part_of(numbers, p, r) for r in range(p)]
    return computing + rounds, [8 * numbers + 16 * (part.stop - part.start) for part in parts]
