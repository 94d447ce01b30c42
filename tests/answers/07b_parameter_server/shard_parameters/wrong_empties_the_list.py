# Wrong: takes the tensors out of the list that it was given. Loses all marks.
# Told: it has changed its argument sizes
def shard_parameters(sizes, num_servers, largest_bytes):
    pieces = []
    while sizes:
        elements, itemsize = sizes.pop()
        step = largest_bytes // itemsize
        pieces += [(itemsize, (len(sizes), a, min(a + step, elements))) for a in range(0, elements, step)]
    shards, loads = [[] for _ in range(num_servers)], [0] * num_servers
    for itemsize, piece in sorted(pieces, key=lambda each: (each[1][1] - each[1][2]) * each[0]):
        server = loads.index(min(loads))
        shards[server].append(piece)
        loads[server] += (piece[2] - piece[1]) * itemsize
    return shards
