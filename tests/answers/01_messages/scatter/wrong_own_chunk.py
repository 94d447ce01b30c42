# Wrong: everybody returns the chunk of its own tensor. Loses all marks.
# Told: nothing from the root, rank 0, was received
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, root)
        return chunks[comm.rank]
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
