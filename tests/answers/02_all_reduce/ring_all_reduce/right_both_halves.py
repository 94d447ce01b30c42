# Right: the two halves one after the other.
def ring_all_reduce(comm, tensor):
    ring_reduce_scatter(comm, tensor)
    ring_all_gather(comm, tensor)
