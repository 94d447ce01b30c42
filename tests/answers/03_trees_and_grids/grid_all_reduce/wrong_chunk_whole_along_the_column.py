# Wrong: passes the whole chunk on along the column instead of cutting it once more. Loses all marks.
# Told: Cut it once more, into one piece for each row
def grid_all_reduce(comm, tensor, columns):
    row, column = divmod(comm.rank, columns)
    my_row, my_column = comm.split(row), comm.split(column)
    flat = tensor.reshape(-1)
    chunk = torch.tensor_split(flat, columns)[column]
    ring_reduce_scatter(my_row, flat)
    passing, size = chunk.clone(), my_column.world_size
    for _ in range(size - 1):
        incoming = torch.empty_like(passing)
        my_column.exchange(passing, (row + 1) % size, incoming, (row - 1) % size)
        chunk += incoming
        passing = incoming
    ring_all_gather(my_row, flat)
    tensor.copy_(flat.view(tensor.shape))
