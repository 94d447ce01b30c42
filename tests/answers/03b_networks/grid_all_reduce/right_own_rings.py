# Right: own rings, and neighbors by arithmetic.
def around(comm, chunks, place, members, add):
    size = len(members)
    next_rank, previous_rank = members[(place + 1) % size], members[(place - 1) % size]
    for step in range(size - 1):
        number = place - step - 1 if add else place - step
        target = chunks[(number - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[number % size], next_rank, incoming, previous_rank)
        if add:
            target += incoming
        else:
            target.copy_(incoming)


def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    in_row = range(row * columns, (row + 1) * columns)
    in_column = range(column, comm.world_size, columns)
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, columns)
    pieces = torch.tensor_split(chunks[column], len(in_column))
    around(comm, chunks, column, in_row, add=True)
    around(comm, pieces, row, in_column, add=True)
    around(comm, pieces, row, in_column, add=False)
    around(comm, chunks, column, in_row, add=False)
    tensor.copy_(flat.view(tensor.shape))
