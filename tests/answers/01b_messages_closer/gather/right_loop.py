# Right: receives in order of rank.
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[root] = tensor
    for src in range(comm.world_size):
        if src != root:
            comm.recv(gathered[src], src)
    return gathered
