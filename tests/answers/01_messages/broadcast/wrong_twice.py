# Wrong: every tree edge is used twice. Loses all marks.
# Told: more than once
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            for _ in range(2):
                comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            for _ in range(2):
                comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
