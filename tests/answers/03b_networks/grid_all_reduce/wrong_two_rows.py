# Wrong: both communicators are rows: the columns are never added up. Loses all marks.
# Told: none goes along a column
def grid_all_reduce(comm: Communicator, tensor: torch.Tensor, columns: int) -> None:
    row = comm.split(comm.rank // columns)
    column = comm.split(comm.rank // columns)
    flat = tensor.reshape(-1)
    ring_reduce_scatter(row, flat)
    chunk = torch.tensor_split(flat, columns)[row.rank]
    ring_reduce_scatter(column, chunk)
    ring_all_gather(column, chunk)
    ring_all_gather(row, flat)
    tensor.copy_(flat.view(tensor.shape))
