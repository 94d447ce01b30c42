# Wrong: chunks of length // world_size; the rest is left out. Loses all marks.
# Told: With chunks of 2 the values would be right
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    length = flat.numel() // size
    chunks = [flat[k * length : (k + 1) * length] for k in range(size)]
    for step in range(size - 1):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    tensor.copy_(flat.view(tensor.shape))
