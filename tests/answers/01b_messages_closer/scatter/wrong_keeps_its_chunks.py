# Wrong: cuts the tensor only once for each number of ranks, and keeps the chunks. Loses all marks.
# Told: right on its own, but not after other calls
CHUNKS = {}


def scatter(comm, tensor, root=0):
    if comm.world_size not in CHUNKS:
        CHUNKS[comm.world_size] = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    chunks = CHUNKS[comm.world_size]
    if comm.rank != root:
        mine = torch.empty_like(chunks[comm.rank])
        comm.recv(mine, root)
        return mine
    for dst in range(comm.world_size):
        if dst != root:
            comm.send(chunks[dst], dst)
    return chunks[root]
