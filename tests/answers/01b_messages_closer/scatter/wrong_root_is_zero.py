# Wrong: takes rank 0 for the root. Loses all marks.
# Told: rank 0 plays the root
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank != 0:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, 0)
        return mine
    for dst in range(1, comm.world_size):
        comm.send(chunks[dst], dst)
    return chunks[0]
