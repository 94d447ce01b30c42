# Wrong: one ring through all ranks. Loses all marks.
# Told: that is one ring through all ranks
def grid_all_reduce(comm, tensor, columns):
    flat = tensor.reshape(-1)
    ring_reduce_scatter(comm, flat)
    ring_all_gather(comm, flat)
    tensor.copy_(flat.view(tensor.shape))
