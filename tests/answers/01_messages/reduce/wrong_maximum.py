# Wrong: takes the maximum. Loses all marks.
# Told: this is the maximum
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            torch.maximum(tensor, incoming, out=tensor)
        distance *= 2
