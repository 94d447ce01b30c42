# Wrong: chunk 0 stays on the root, the next rank gets chunk 1. Loses all marks.
# Told: the chunk has the number of the rank that it goes to
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    place = (comm.rank - root) % comm.world_size
    if place == 0:
        for p in range(1, comm.world_size):
            comm.send(chunks[p], (p + root) % comm.world_size)
        return chunks[0]
    mine = torch.empty_like(chunks[place])
    comm.recv(mine, root)
    return mine
