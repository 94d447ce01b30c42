# Wrong: receives into the tensor itself, so its own values are lost. Loses all marks.
# Told: these are the values of rank 1 alone
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.recv(tensor, rank + distance)
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            comm.recv(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.send(tensor, rank + distance)
