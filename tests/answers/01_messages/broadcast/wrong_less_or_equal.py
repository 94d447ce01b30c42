# Wrong: place <= d instead of place < d: rank at place d sends before it has received. Loses all marks.
# Told: rank 1 has returned without the tensor
def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    n = comm.world_size
    place = (comm.rank - root) % n
    d = 1
    while d < n:
        if place <= d:
            if place + d < n:
                comm.send(tensor, (place + d + root) % n)
        elif place < 2 * d:
            comm.recv(tensor, (place - d + root) % n)
        d *= 2
