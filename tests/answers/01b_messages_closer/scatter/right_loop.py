# Right: a loop over all ranks but the root.
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, root)
        return mine
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
