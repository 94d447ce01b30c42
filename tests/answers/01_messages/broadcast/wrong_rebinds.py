# Wrong: gives the name a new meaning. Loses all marks.
# Told: `tensor = x` only renames
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            incoming = torch.empty_like(tensor)
            comm.recv(incoming, (place - distance + root) % size)
            tensor = incoming
        distance *= 2
