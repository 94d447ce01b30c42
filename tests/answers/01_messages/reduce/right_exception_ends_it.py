# Right: a rank that has handed in its sum leaves the loop by an exception of its own.
class HandedIn(Exception):
    pass


def step(comm, tensor, root, distance):
    n = comm.world_size
    place = (comm.rank - root) % n
    if place & distance:
        comm.send(tensor, (place - distance + root) % n)
        raise HandedIn
    if place + distance < n:
        box = tensor.clone().zero_()
        comm.recv(box, (place + distance + root) % n)
        tensor.copy_(torch.add(tensor, box))


def reduce(comm, tensor, root=0):
    try:
        for k in range((comm.world_size - 1).bit_length()):
            step(comm, tensor, root, 2**k)
    except HandedIn:
        pass
