# Wrong: view(-1) needs contiguous memory. Loses the hidden marks.
# Told: view(-1) needs a tensor whose memory is contiguous
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.view(-1), comm.world_size)
    if comm.rank != root:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, root)
        return mine
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
