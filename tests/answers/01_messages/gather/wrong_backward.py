# Wrong: the last rank's tensor stands first. Loses all marks.
# Told: The list is in order of rank
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = []
    for src in reversed(range(comm.world_size)):
        gathered.append(tensor if src == root else torch.empty_like(tensor))
        if src != root:
            comm.recv(gathered[-1], src)
    return gathered
