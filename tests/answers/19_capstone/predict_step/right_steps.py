# Right: in small steps, with bandwidth and latency by hand.
def predict_step(numbers, seconds_per_sample, cluster, shares):
    p = len(shares)
    computing = 0.0
    for rank in range(p):
        factor = cluster.stragglers[rank] if rank in cluster.stragglers else 1
        computing = max(computing, shares[rank] * seconds_per_sample * factor)
    memory = []
    for rank in range(p):
        own = numbers // p + (1 if rank < numbers % p else 0)
        memory.append(8 * (numbers + 2 * own))
    if p == 1:
        return computing, memory
    chunk = 8 * numbers / p
    slowest = 0.0
    for rank in range(p):
        link = cluster.link(rank, (rank + 1) % p)
        slowest = max(slowest, link.latency + chunk / link.bandwidth)
    return computing + 2 * (p - 1) * slowest, memory
