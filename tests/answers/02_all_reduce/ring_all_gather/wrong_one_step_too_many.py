# Wrong: one step too many; the values are right, and every rank sends a chunk for nothing. Loses all marks.
# Told: a loop runs one step too often
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    if size == 1:
        return
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    tensor.copy_(flat.view(tensor.shape))
