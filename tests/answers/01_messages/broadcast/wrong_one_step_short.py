# Wrong: the loop ends one step too early. Loses all marks.
# Told: Does the function return too early
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while 2 * distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
