# Right: the names in one order on all ranks.
def average_by_name(comm, gradients):
    for name in sorted(gradients):
        all_reduce(comm, gradients[name])
        gradients[name] /= comm.world_size
