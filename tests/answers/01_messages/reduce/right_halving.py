# Right: the upper half hands over to the lower half.
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    active, incoming = size, torch.empty_like(tensor)
    while active > 1:
        half = (active + 1) // 2
        if place >= half:
            comm.send(tensor, (place - half + root) % size)
            return
        if place + half < active:
            comm.recv(incoming, (place + half + root) % size)
            tensor.add_(incoming)
        active = half
