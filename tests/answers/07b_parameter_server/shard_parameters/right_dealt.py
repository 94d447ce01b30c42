# Right: deals the sorted pieces in turn, like cards.
def shard_parameters(sizes, num_servers, largest_bytes):
    pieces = []
    for number, (elements, itemsize) in enumerate(sizes):
        length = largest_bytes // itemsize
        pieces += [(number, start, min(elements, start + length)) for start in range(0, elements, length)]
    pieces.sort(key=lambda piece: (piece[2] - piece[1]) * sizes[piece[0]][1], reverse=True)
    return [pieces[server::num_servers] for server in range(num_servers)]
