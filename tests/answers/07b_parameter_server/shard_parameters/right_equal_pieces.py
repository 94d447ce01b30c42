# Right: cuts a tensor into pieces of nearly equal lengths; takes them as they come.
def shard_parameters(sizes, num_servers, largest_bytes):
    shards = [[] for _ in range(num_servers)]
    for number, (elements, itemsize) in enumerate(sizes):
        pieces = -(-elements // (largest_bytes // itemsize))
        bounds = [elements * k // pieces for k in range(pieces + 1)]
        for start, stop in zip(bounds, bounds[1:]):
            shard = min(shards, key=lambda shard: sum((b - a) * sizes[n][1] for n, a, b in shard))
            shard.append([number, start, stop])
    return tuple(shards)
