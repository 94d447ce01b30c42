# Wrong: the buffer is always float32. Loses the hidden marks.
# Told: torch.empty(n) and torch.zeros(n) make float32
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.zeros(len(mine))
        comm.exchange(chunks[(rank - 1 - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
