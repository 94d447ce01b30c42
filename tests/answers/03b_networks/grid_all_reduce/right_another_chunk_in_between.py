# Right: after the first part a rank has chunk column + 1; empty chunks are not sent.
def talk(comm, outgoing, dst, incoming, src):
    works = [comm.irecv(incoming, src)] if len(incoming) else []
    works += [comm.isend(outgoing, dst)] if len(outgoing) else []
    for work in works:
        work.wait()


def ring(comm, chunks, place, next_rank, previous_rank, between):
    size = len(chunks)
    for step in range(size - 1):
        target = chunks[(place - step - 1) % size]
        incoming = torch.empty_like(target)
        talk(comm, chunks[(place - step) % size], next_rank, incoming, previous_rank)
        target += incoming
    between(chunks[(place + 1) % size])
    for step in range(size - 1):
        talk(comm, chunks[(place + 1 - step) % size], next_rank, chunks[(place - step) % size], previous_rank)


def grid_all_reduce(comm, tensor, columns):
    size = comm.world_size
    row, column = comm.rank // columns, comm.rank % columns
    right, left = row * columns + (column + 1) % columns, row * columns + (column - 1) % columns
    down, up = (comm.rank + columns) % size, (comm.rank - columns) % size
    flat = tensor.reshape(-1)

    def along_column(chunk):
        ring(comm, torch.tensor_split(chunk, size // columns), row, down, up, lambda piece: None)

    ring(comm, torch.tensor_split(flat, columns), column, right, left, along_column)
    tensor.copy_(flat.view(tensor.shape))
