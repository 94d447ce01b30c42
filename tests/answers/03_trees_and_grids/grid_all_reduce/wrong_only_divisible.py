# Wrong: chunks of length // columns; the rest is left out. Loses all marks.
# Told: 13 does not divide by 2. Do you cut chunks of 6
def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    whole = tensor.reshape(-1)
    flat = whole[: len(whole) // columns * columns]
    chunk = torch.tensor_split(flat, columns)[column]
    ring_reduce_scatter(my_row, flat)
    ring_reduce_scatter(my_column, chunk)
    ring_all_gather(my_column, chunk)
    ring_all_gather(my_row, flat)
    tensor.copy_(whole.view(tensor.shape))
