# Wrong: the root's own tensor is missing. Loses all marks.
# Told: the list must contain the root's own tensor too
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = []
    for src in range(comm.world_size):
        if src != root:
            gathered.append(torch.empty_like(tensor))
            comm.recv(gathered[-1], src)
    return gathered
