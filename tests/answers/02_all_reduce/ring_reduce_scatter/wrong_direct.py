# Wrong: every chunk is sent straight to its owner, not round the ring. Loses all marks.
# Told: rank 0 sent to ranks 1 and 2. In a ring it sends to one neighbor only
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    total = chunks[rank].clone()
    for distance in range(1, size):
        incoming = torch.empty_like(total)
        dst, src = (rank + distance) % size, (rank - distance) % size
        comm.exchange(chunks[dst], dst, incoming, src)
        total += incoming
    chunks[rank].copy_(total)
    tensor.copy_(flat.view(tensor.shape))
