# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: need
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        mine = torch.empty(len(chunks[comm.rank]))
        comm.recv(mine, root)
        return mine
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
