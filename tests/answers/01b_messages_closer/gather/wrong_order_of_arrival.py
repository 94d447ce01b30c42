# Wrong: takes from anyone, and keeps the order in which the tensors come. Loses all marks.
# Told: not in order of arrival
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size - 1)]
    for buffer in gathered:
        comm.recv(buffer)
    return [*gathered[:root], tensor, *gathered[root:]]
