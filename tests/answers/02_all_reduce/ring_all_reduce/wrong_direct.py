# Wrong: chunks go straight to their owner and straight to everybody, not round the ring. Loses all marks.
# Told: In a ring it sends to one neighbor only
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    total = chunks[rank].clone()
    for distance in range(1, size):
        incoming = torch.empty_like(total)
        comm.exchange(chunks[(rank + distance) % size], (rank + distance) % size, incoming, (rank - distance) % size)
        total += incoming
    chunks[rank].copy_(total)
    for distance in range(1, size):
        src = (rank - distance) % size
        comm.exchange(chunks[rank], (rank + distance) % size, chunks[src], src)
    tensor.copy_(flat.view(tensor.shape))
