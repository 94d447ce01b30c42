# Wrong: returns a new tensor. Loses all marks.
# Told: it is in a new tensor that your function returns
def reduce(comm, tensor, root=0):
    tensor = tensor.clone()
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return None
        if place + distance < size:
            comm.recv(incoming, (place + distance + root) % size)
            tensor += incoming
        distance *= 2
    return tensor
