# Wrong: sends before it has received. Loses all marks.
# Told: Somebody has sent before it had received
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    own = tensor.clone()
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(own, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
