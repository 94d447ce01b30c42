# Wrong: the all-gather is missing. Loses all marks.
# Told: the reduce-scatter is done, and the all-gather
def ring_all_reduce(comm, tensor):
    ring_reduce_scatter(comm, tensor)
