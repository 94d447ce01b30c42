# Wrong: only the ranks that rank 0 talks to get the sum. Loses all marks.
# Told: it never arrived at rank 3
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
    for distance in reversed(distances):
        if rank == distance:
            comm.recv(tensor, 0)
        elif rank == 0:
            comm.send(tensor, distance)
