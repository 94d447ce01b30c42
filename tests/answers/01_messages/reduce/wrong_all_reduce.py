# Wrong: everybody gets the sum. Loses all marks.
# Told: expected
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            break
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            tensor += incoming
        distance *= 2
    if place == 0:
        for dst in range(size):
            if dst != root:
                comm.send(tensor, dst)
    else:
        comm.recv(tensor, root)
