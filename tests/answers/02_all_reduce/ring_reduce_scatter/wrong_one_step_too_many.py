# Wrong: one step too many; own values are counted twice. Loses all marks.
# Told: Is that one step too many? The reduce-scatter takes world_size - 1 steps
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    if size == 1:
        return
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size):
        mine = chunks[(rank - 1 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
