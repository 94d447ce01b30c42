# Wrong: no check whether the partner exists. Loses all marks.
# Told: would wait forever
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        comm.recv(incoming, (place + distance + root) % size)
        tensor += incoming
        distance *= 2
