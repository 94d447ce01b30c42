# Wrong: one step too few. Loses all marks.
# Told: does its loop run one time too few
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 2):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    tensor.copy_(flat.view(tensor.shape))
