# Wrong: one step too few, so the last rank's values are missing. Loses all marks.
# Told: does its loop run one time too few
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 2):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
