# Wrong: a full all-reduce along the rows, and then one along the columns. Loses all marks.
# Told: whole tensors are summed up along the columns, by every column the same
def grid_all_reduce(comm, tensor, columns):
    flat = tensor.reshape(-1)
    for ring in (comm.split(comm.rank // columns), comm.split(comm.rank % columns)):
        ring_reduce_scatter(ring, flat)
        ring_all_gather(ring, flat)
    tensor.copy_(flat.view(tensor.shape))
