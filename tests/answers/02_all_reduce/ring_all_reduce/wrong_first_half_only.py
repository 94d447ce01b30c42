# Wrong: the all-gather is missing. Loses all marks.
def ring_all_reduce(comm, tensor):
    ring_reduce_scatter(comm, tensor)
