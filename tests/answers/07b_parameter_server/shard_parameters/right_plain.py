# Right: as in the solution.
def shard_parameters(
    sizes: list[tuple[int, int]], num_servers: int, largest_bytes: int
) -> list[list[tuple[int, int, int]]]:
    pieces = []
    for tensor, (elements, itemsize) in enumerate(sizes):
        step = largest_bytes // itemsize
        for start in range(0, elements, step):
            stop = min(start + step, elements)
            pieces.append(((stop - start) * itemsize, (tensor, start, stop)))

    loads = [0] * num_servers
    shards: list[list[tuple[int, int, int]]] = [[] for _ in range(num_servers)]
    for nbytes, piece in sorted(pieces, reverse=True):  # large ones first: the balance is better
        lightest = loads.index(min(loads))
        loads[lightest] += nbytes
        shards[lightest].append(piece)
    return shards
