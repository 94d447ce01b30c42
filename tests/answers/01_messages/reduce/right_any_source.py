# Right: knows how many will come, not from whom first.
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    below = []
    distance = 1
    while distance < size and place % (2 * distance) == 0:
        below += [place + distance] if place + distance < size else []
        distance *= 2
    for _ in below:
        comm.recv(incoming)
        tensor += incoming
    if place:
        comm.send(tensor, (place - distance + root) % size)
