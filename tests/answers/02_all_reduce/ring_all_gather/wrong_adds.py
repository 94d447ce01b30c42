# Wrong: adds what comes in to what was there. Loses all marks.
# Told: the chunk of rank 1 was added to what was there before
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        target = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        target += incoming
    tensor.copy_(flat.view(tensor.shape))
