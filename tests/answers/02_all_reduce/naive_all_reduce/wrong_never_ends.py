# Wrong: computes for ever. Loses all marks.
def naive_all_reduce(comm, tensor):
    step = 0
    while step < comm.world_size:
        step = step * 2
