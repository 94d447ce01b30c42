# Wrong: hopes that the communicator has an all_reduce. Loses all marks.
# Told: the communicator of this exercise has no 'all_reduce'
def ring_all_reduce(comm, tensor):
    if comm.world_size > 1:
        comm.all_reduce(tensor)
