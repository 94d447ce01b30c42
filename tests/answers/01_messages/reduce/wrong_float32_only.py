# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: need
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty(tensor.shape)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            tensor += incoming
        distance *= 2
