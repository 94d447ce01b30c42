# Wrong: the others return an empty list. Loses all marks.
# Told: expected None, because the root is rank 0
def gather(comm, tensor, root=0):
    gathered = []
    if comm.rank != root:
        comm.send(tensor, root)
        return gathered
    for src in range(comm.world_size):
        gathered.append(tensor if src == root else torch.empty_like(tensor))
        if src != root:
            comm.recv(gathered[src], src)
    return gathered
