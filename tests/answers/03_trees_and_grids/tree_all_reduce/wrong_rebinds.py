# Wrong: `tensor = tensor + incoming` makes a new tensor. Loses all marks.
# Told: the result went into another one
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    incoming = torch.empty_like(tensor)
    tensor = tensor.clone()
    distances = [2**step for step in range((size - 1).bit_length())]
    for distance in distances:
        if rank % (2 * distance) == distance:
            comm.send(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.recv(incoming, rank + distance)
            tensor = tensor + incoming
    for distance in reversed(distances):
        if rank % (2 * distance) == distance:
            comm.recv(tensor, rank - distance)
        elif rank % (2 * distance) == 0 and rank + distance < size:
            comm.send(tensor, rank + distance)
