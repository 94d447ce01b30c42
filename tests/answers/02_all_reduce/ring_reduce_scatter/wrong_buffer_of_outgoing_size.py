# Wrong: the buffer is as long as the chunk that leaves, not as the one that comes. Loses all marks.
# Told: must be as long as the chunk that comes, not as the one that leaves
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing = chunks[(rank - 1 - step) % size]
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(outgoing)
        comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    tensor.copy_(flat.view(tensor.shape))
