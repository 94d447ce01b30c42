# Wrong: the root's tensor stands first. Loses all marks.
# Told: not with the root first
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = [tensor]
    for src in range(comm.world_size):
        if src != root:
            gathered.append(torch.empty_like(tensor))
            comm.recv(gathered[-1], src)
    return gathered
