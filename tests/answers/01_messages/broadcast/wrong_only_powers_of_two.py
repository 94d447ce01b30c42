# Wrong: no check whether the partner exists. Loses all marks.
# Told: would wait forever
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
