# Right: all ranks call split, and only the workers go on.
def average_workers(comm, tensor, workers):
    group = comm.split(0 if comm.rank < workers else None)
    if group is None:
        return
    all_reduce(group, tensor)
    tensor /= group.world_size
