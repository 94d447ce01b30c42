# Wrong: receives into the tensor that it was given. Loses all marks.
# Told: rank 1's own tensor was changed
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != root:
        comm.recv(chunks[comm.rank], root)
        return chunks[comm.rank]
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
