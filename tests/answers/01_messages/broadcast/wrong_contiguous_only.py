# Wrong: writes into a copy of a tensor that is not contiguous. Loses the hidden marks.
# Told: reshape(-1), flatten() and contiguous() make a copy
def broadcast(comm, tensor, root=0):
    tensor = tensor.reshape(-1)
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(tensor, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(tensor, (place - distance + root) % size)
        distance *= 2
