# Wrong: computes for ever. Loses all marks.
# Told: a loop whose condition never becomes false
def naive_all_reduce(comm, tensor):
    step = 0
    while step < comm.world_size:
        step = step * 2
