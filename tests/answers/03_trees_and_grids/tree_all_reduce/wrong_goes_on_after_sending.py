# Wrong: a rank that has sent goes on in the next step as if it still took part. Loses all marks.
# Told: it takes no part in the other steps up
def tree_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    n, r = comm.world_size, comm.rank
    buffer = torch.empty_like(tensor)
    steps = (n - 1).bit_length()
    for k in range(steps):
        d = 2**k
        if r & d:
            comm.send(tensor, r - d)
        elif r + d < n:
            comm.recv(buffer, r + d)
            tensor += buffer
    for k in reversed(range(steps)):
        d = 2**k
        if r & d:
            comm.recv(tensor, r - d)
        elif r + d < n:
            comm.send(tensor, r + d)
