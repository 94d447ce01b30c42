# Wrong: returns a new tensor. Loses all marks.
# Told: it is in a new tensor that your function returns
def broadcast(comm, tensor, root=0):
    tensor = tensor.clone()
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
    return tensor
