# Wrong: the loop ends one step too early. Loses all marks.
# Told: return too early
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while 2 * distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            tensor += incoming
        distance *= 2
