# Wrong: takes rank 0 for the root. Loses all marks.
# Told: expected None, because the root is rank 1
def gather(comm, tensor, root=0):
    if comm.rank != 0:
        comm.send(tensor, 0)
        return None
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[0] = tensor
    for src in range(1, comm.world_size):
        comm.recv(gathered[src], src)
    return gathered
