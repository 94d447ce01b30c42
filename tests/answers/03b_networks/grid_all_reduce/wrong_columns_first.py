# Wrong: begins with the columns. Loses all marks.
# Told: Here the rows come first
def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, my_column.world_size)[row]
    ring_reduce_scatter(my_column, flat)
    ring_reduce_scatter(my_row, chunk)
    ring_all_gather(my_row, chunk)
    ring_all_gather(my_column, flat)
    tensor.copy_(flat.view(tensor.shape))
