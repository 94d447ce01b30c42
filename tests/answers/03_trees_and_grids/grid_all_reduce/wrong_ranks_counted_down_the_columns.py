# Wrong: numbers the ranks down the columns instead of along the rows. Loses all marks.
# Told: Here the rows come first
def grid_all_reduce(comm, tensor, columns):
    column, row = divmod(comm.rank, comm.world_size // columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, columns)[column]
    ring_reduce_scatter(my_row, flat)
    ring_reduce_scatter(my_column, chunk)
    ring_all_gather(my_column, chunk)
    ring_all_gather(my_row, flat)
    tensor.copy_(flat.view(tensor.shape))
