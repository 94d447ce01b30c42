# Wrong: everything travels as float32. Loses the hidden marks.
# Told: in another dtype
def broadcast(comm, tensor, root=0):
    buffer = tensor.float()
    size = comm.world_size
    place = (comm.rank - root) % size
    distance = 1
    while distance < size:
        if place < distance and place + distance < size:
            comm.send(buffer, (place + distance + root) % size)
        elif distance <= place < 2 * distance:
            comm.recv(buffer, (place - distance + root) % size)
        distance *= 2
    if place:
        tensor.copy_(buffer)
