# Wrong: works on a copy of a tensor that is not contiguous, and leaves it there. Loses the hidden marks.
# Told: Work on the copy, then write it back
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    chunks = torch.tensor_split(tensor.reshape(-1), size)
    for step in range(size - 1):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
