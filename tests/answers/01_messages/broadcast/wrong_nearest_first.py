# Wrong: the right tree, the small branches first. Loses all marks.
# Told: sends first to the rank that has least to pass on
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    lowest = place & -place
    if place:
        comm.recv(tensor, (place - lowest + root) % size)
    distance = 1
    while distance < (lowest or size):
        if place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        distance *= 2
