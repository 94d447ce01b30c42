# Wrong: cuts the tensor into as many chunks as there are rows, which is right on square grids. Loses all marks.
# Told: the number of ranks is not fixed
def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, my_column.world_size)[column]
    ring_reduce_scatter(my_row, flat)
    ring_reduce_scatter(my_column, chunk)
    ring_all_gather(my_column, chunk)
    ring_all_gather(my_row, flat)
    tensor.copy_(flat.view(tensor.shape))
