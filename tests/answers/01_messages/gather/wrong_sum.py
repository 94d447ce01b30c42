# Wrong: adds up instead of collecting. Loses all marks.
# Told: Expected is a list of tensors
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    total, incoming = tensor.clone(), torch.empty_like(tensor)
    for src in range(comm.world_size):
        if src != root:
            comm.recv(incoming, src)
            total += incoming
    return total
