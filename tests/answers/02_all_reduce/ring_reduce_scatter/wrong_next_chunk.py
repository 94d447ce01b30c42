# Wrong: the full sum of chunk r + 1 ends at rank r, not that of chunk r. Loses all marks.
# Told: one full sum, but in the wrong chunk: rank 0 in chunk 1
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
