# Wrong: the root takes in every tensor itself. Loses all marks.
# Told: Let others add up pairs first
def reduce(comm, tensor, root=0):
    incoming = torch.empty_like(tensor)
    if comm.rank != root:
        comm.send(tensor, root)
        return
    for src in range(comm.world_size):
        if src != root:
            comm.recv(incoming, src)
            tensor += incoming
