# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: torch.empty(n) and torch.zeros(n) make float32
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        target = chunks[(rank - 1 - step) % size]
        incoming = torch.empty(len(target))
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
