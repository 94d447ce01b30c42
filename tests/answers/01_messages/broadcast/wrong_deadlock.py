# Wrong: both sides send. Loses all marks.
# Told: ranks wait for each other
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.send(tensor, (place - distance + root) % size)
        distance *= 2
