# Wrong: sends its own chunk in every step instead of passing on what came in. Loses all marks.
# Told: rank 1's never arrived there
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    previous_rank = (rank - 1) % size
    for step in range(size - 1):
        comm.exchange(chunks[rank], (rank + 1) % size, chunks[previous_rank], previous_rank)
    tensor.copy_(flat.view(tensor.shape))
