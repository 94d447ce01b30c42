# Right: the farthest first: distances 4, 2, 1.
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        distance *= 2
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == 0 and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif place % (2 * distance) == distance:
            comm.recv(tensor, (place - distance + root) % size)
