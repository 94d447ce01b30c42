# Right: all ranks call the group of their row first.
def reduce_in_grid(comm, activation, gradient, columns):
    row = comm.split(comm.rank // columns)
    column = comm.split(comm.rank % columns)
    all_reduce(row, activation)
    all_reduce(column, gradient)
    gradient /= column.world_size
