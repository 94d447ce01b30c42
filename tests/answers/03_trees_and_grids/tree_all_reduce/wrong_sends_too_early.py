# Wrong: the steps of the way up are in the wrong order, so a rank sends before it has received. Loses all marks.
# Told: the sum lacks the values of rank 3. Does a rank send up before it has received
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    incoming = torch.empty_like(tensor)
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances[::-1]:
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
