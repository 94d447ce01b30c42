# Wrong: adds into a copy of a tensor that is not contiguous. Loses the hidden marks.
# Told: reshape(-1), flatten() and contiguous() make a copy
def reduce(comm, tensor, root=0):
    tensor = tensor.reshape(-1)
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
            tensor += incoming
        distance *= 2
