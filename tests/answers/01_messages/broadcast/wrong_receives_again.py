# Wrong: ranks that have the tensor already receive again: the test place >= d is missing. Loses all marks.
# Told: rank 0 has the tensor already, and waits to receive it
def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    n = comm.world_size
    place = (comm.rank - root) % n
    d = 1
    while d < n:
        if place < d and place + d < n:
            comm.send(tensor, (place + d + root) % n)
        if place < 2 * d:
            comm.recv(tensor, (place - d + root) % n)
        d *= 2
