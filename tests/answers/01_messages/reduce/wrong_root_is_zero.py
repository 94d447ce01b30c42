# Wrong: takes rank 0 for the root. Loses all marks.
# Told: rank 0 plays the root, but the root is rank 1
def reduce(comm, tensor, root=0):
    size, place, root = comm.world_size, comm.rank, 0
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            tensor += incoming
        distance *= 2
