# Wrong: the last rank is at the top. Loses all marks.
# Told: rank 1 is at the top of your tree. In this exercise it is rank 0
def tree_all_reduce(comm, tensor):
    size = comm.world_size
    rank = size - 1 - comm.rank
    incoming = torch.empty_like(tensor)
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, size - 1 - rank + distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.recv(incoming, size - 1 - rank - distance)
            tensor += incoming
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            comm.recv(tensor, size - 1 - rank + distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.send(tensor, size - 1 - rank - distance)
