# Wrong: a tree up, but then rank 0 sends to everybody itself. Loses all marks.
# Told: Every rank that has the sum can help
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
    if rank > 0:
        comm.recv(tensor, 0)
    else:
        for dst in range(1, size):
            comm.send(tensor, dst)
