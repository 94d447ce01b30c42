# Wrong: returns a new tensor instead of writing in place. Loses all marks.
# Told: it is in a new tensor that your function returns
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1).clone()
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    return flat.view(tensor.shape)
