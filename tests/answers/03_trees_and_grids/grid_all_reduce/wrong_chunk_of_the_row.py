# Wrong: takes the chunk with the number of its row. Loses all marks.
# Told: is wrong. It must be the sum over all ranks
def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, columns)[row]
    ring_reduce_scatter(my_row, flat)
    ring_reduce_scatter(my_column, chunk)
    ring_all_gather(my_column, chunk)
    ring_all_gather(my_row, flat)
    tensor.copy_(flat.view(tensor.shape))
