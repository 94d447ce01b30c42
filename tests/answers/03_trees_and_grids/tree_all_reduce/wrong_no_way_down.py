# Wrong: only adds up on rank 0. Loses all marks.
# Told: The way down is missing
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    incoming = torch.empty_like(tensor)
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.recv(incoming, rank + distance)
            tensor += incoming
