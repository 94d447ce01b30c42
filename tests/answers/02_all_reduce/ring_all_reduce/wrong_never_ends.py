# Wrong: computes for ever when there is more than one rank. Loses all marks.
# Told: a loop whose condition never becomes false
def ring_all_reduce(comm, tensor):
    step = 0
    while step < comm.world_size - 1:
        tensor += 0
