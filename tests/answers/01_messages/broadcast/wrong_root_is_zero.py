# Wrong: takes rank 0 for the root. Loses all marks.
# Told: rank 0 plays the root, but the root is rank 1
def broadcast(comm, tensor, root=0):
    size, place, root = comm.world_size, comm.rank, 0
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
