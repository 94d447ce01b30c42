# Wrong: world_size.bit_length() - 1 steps, with 3 or 5 ranks one too few. Loses all marks.
# Told: With 3 ranks a tree takes 2 steps
def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0) -> None:
    n = comm.world_size
    place = (comm.rank - root) % n
    for k in range(n.bit_length() - 1):
        d = 2**k
        if place < d:
            if place + d < n:
                comm.send(tensor, (place + d + root) % n)
        elif place < 2 * d:
            comm.recv(tensor, (place - d + root) % n)
