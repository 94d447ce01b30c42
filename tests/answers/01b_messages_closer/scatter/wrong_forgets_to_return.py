# Wrong: everybody has its chunk, and nobody returns it. Loses all marks.
# Told: no rank returned anything; expected a tensor from each
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    mine = torch.empty_like(chunks[comm.rank])
    if comm.rank != root:
        comm.recv(mine, root)
    else:
        mine = chunks[root]
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(chunks[dst], dst)
