# Wrong: averages instead of summing. Loses all marks.
# Told: this is the average
def ring_all_reduce(comm, tensor):
    ring_reduce_scatter(comm, tensor)
    ring_all_gather(comm, tensor)
    tensor.copy_(tensor / comm.world_size)
