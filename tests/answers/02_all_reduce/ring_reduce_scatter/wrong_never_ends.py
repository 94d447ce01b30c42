# Wrong: computes for ever. Loses all marks.
# Told: a loop whose condition never becomes false
def ring_reduce_scatter(comm, tensor):
    while comm.world_size > 1:
        tensor += 0
