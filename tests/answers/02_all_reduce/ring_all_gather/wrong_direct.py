# Wrong: every rank sends its chunk straight to every other rank. Loses all marks.
# Told: In a ring it sends to one neighbor only
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for distance in range(1, size):
        dst, src = (rank + distance) % size, (rank - distance) % size
        comm.exchange(chunks[rank], dst, chunks[src], src)
    tensor.copy_(flat.view(tensor.shape))
