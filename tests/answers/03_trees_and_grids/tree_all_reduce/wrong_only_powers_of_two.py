# Wrong: takes for granted that every rank has a partner. Loses all marks.
# Told: not every number of ranks is a power of two
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    incoming = torch.empty_like(tensor)
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, rank - distance)
        elif rank % (2 * distance) == 0:
            comm.recv(incoming, rank + distance)
            tensor += incoming
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            comm.recv(tensor, rank - distance)
        elif rank % (2 * distance) == 0:
            comm.send(tensor, rank + distance)
