# Wrong: receives into the tensor itself. Loses all marks.
# Told: what was received has replaced what was there
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            comm.send(tensor, (place - distance + root) % size)
            return
        if place + distance < size:
            comm.recv(tensor, (place + distance + root) % size)
        distance *= 2
