# Wrong: only the root returns its chunk. Loses all marks.
# Told: the others return what they received: return it
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        comm.recv(torch.empty_like(chunks[comm.rank]), root)
        return None
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
