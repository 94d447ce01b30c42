# Wrong: sends before it has received. Loses all marks.
# Told: Rank 2 sent to rank 0 before it had received from rank 3
def reduce(comm, tensor, root=0):
    size = comm.world_size
    place = (comm.rank - root) % size
    incoming = torch.empty_like(tensor)
    own = tensor.clone()
    started = []
    distance = 1
    while distance < size:
        if place % (2 * distance) == distance:
            started.append(comm.isend(own, (place - distance + root) % size))
            break
        distance *= 2
    below = 1
    while below < size and place % (2 * below) == 0:
        if place + below < size:
            comm.recv(incoming, (place + below + root) % size)
            tensor += incoming
        below *= 2
    for work in started:
        work.wait()
