# Wrong: a rank that has sent its sum does not stop: it waits for others in the next step. Loses all marks.
# Told: rank 1 has sent before
def reduce(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    n = comm.world_size
    place = (comm.rank - root) % n
    buffer = torch.empty_like(tensor)
    d = 1
    while d < n:
        if place % (2 * d) == d:
            comm.send(tensor, (place - d + root) % n)
        elif place + d < n:
            comm.recv(buffer, (place + d + root) % n)
            tensor += buffer
        d *= 2
