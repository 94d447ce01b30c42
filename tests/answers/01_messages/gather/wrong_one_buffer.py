# Wrong: receives everything into the same buffer. Loses all marks.
# Told: one buffer was used for all
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered, buffer = [], torch.empty_like(tensor)
    for src in range(comm.world_size):
        if src != root:
            comm.recv(buffer, src)
        gathered.append(tensor if src == root else buffer)
    return gathered
