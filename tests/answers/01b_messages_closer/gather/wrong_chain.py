# Wrong: the tensors are passed on from rank to rank. Loses all marks.
# Told: the tensors are passed on from rank to rank
def gather(comm, tensor, root=0):
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    size, place = comm.world_size, (comm.rank - root) % comm.world_size
    gathered[comm.rank] = tensor
    for p in range(place + 1, size):
        comm.recv(gathered[(p + root) % size], (comm.rank + 1) % size)
    if place == 0:
        return gathered
    for p in range(place, size):
        comm.send(gathered[(p + root) % size], (comm.rank - 1) % size)
    return None
