# Wrong: after the way down rank 0 sends the sum to everybody once more. Loses all marks.
# Told: 4 messages; 2 were expected
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
        if rank % (2 * distance) == distance:
            comm.recv(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.send(tensor, rank + distance)
    if rank > 0:
        comm.recv(tensor, 0)
        comm.send(tensor, 0)
    else:
        for other in range(1, size):
            comm.send(tensor, other)
            comm.recv(tensor, other)
