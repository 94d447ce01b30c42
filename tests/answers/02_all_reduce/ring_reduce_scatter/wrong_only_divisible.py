# Wrong: chunks of length // world_size; the rest is left out. Loses all marks.
# Told: 8 does not divide by 3. Do you cut chunks of 8 // 3 = 2?
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    length = flat.numel() // size
    chunks = [flat[k * length : (k + 1) * length] for k in range(size)]
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - 1 - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
