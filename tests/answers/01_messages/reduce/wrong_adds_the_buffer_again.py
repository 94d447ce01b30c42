# Wrong: tensor += buffer stands outside the if, also where nothing came. Loses the hidden marks.
# Told: Is the buffer also added in a step in which nothing came?
def reduce(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    n = comm.world_size
    place = (comm.rank - root) % n
    buffer = torch.zeros_like(tensor)
    d = 1
    while d < n:
        if place % (2 * d) == d:
            comm.send(tensor, (place - d + root) % n)
            return
        if place + d < n:
            comm.recv(buffer, (place + d + root) % n)
        tensor += buffer
        d *= 2
