# Wrong: returns a new tensor instead of writing in place. Loses all marks.
# Told: it is in a new tensor that your function returns
def ring_all_reduce(comm, tensor):
    result = tensor.clone()
    ring_reduce_scatter(comm, result)
    ring_all_gather(comm, result)
    return result
