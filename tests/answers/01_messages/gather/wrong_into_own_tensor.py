# Wrong: receives into its own tensor. Loses all marks.
# Told: own tensor was changed
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = [tensor.clone() for _ in range(comm.world_size)]
    for src in range(comm.world_size):
        if src != root:
            comm.recv(tensor, src)
            gathered[src] = tensor.clone()
    return gathered
