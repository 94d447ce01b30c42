# Right: in grids of at most two rows and two columns both exchanges are under way at once; larger ones take turns.
def reduce_in_grid(comm, activation, gradient, columns):
    row, column = comm.split(comm.rank // columns), comm.split(comm.rank % columns)
    if row.world_size == column.world_size == 2:
        pairs = [(row, activation, torch.zeros_like(activation)), (column, gradient, torch.zeros_like(gradient))]
        works = []
        for group, tensor, incoming in pairs:
            works += [group.irecv(incoming, 1 - group.rank), group.isend(tensor, 1 - group.rank)]
        for work in works:
            work.wait()
        for _, tensor, incoming in pairs:
            tensor += incoming
    else:
        all_reduce(row, activation)
        all_reduce(column, gradient)
    gradient /= column.world_size
