# Right: without groups, each rank sends to those of its row, then to those of its column.
def reduce_in_grid(comm, activation, gradient, columns):
    first = comm.rank - comm.rank % columns
    add_up(comm, activation, range(first, first + columns))
    members = range(comm.rank % columns, comm.world_size, columns)
    add_up(comm, gradient, members)
    gradient /= len(members)


def add_up(comm, tensor, members):
    mine, here = tensor.clone(), members.index(comm.rank)
    for shift in range(1, len(members)):
        incoming = torch.empty_like(mine)
        after, before = members[(here + shift) % len(members)], members[(here - shift) % len(members)]
        comm.exchange(mine, after, incoming, before)
        tensor += incoming
