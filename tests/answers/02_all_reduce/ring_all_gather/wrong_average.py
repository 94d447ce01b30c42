# Wrong: divides by the number of ranks. Loses all marks.
# Told: An all-gather only copies them
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    flat /= size
    tensor.copy_(flat.view(tensor.shape))
