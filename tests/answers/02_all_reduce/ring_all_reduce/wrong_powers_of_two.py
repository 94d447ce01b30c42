# Wrong: partners by exclusive or, which exist for powers of two only. Loses all marks.
# Told: the number of ranks is not fixed
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    total = chunks[rank].clone()
    for mask in range(1, size):
        incoming = torch.empty_like(total)
        comm.exchange(chunks[rank ^ mask], rank ^ mask, incoming, rank ^ mask)
        total += incoming
    chunks[rank].copy_(total)
    for mask in range(1, size):
        comm.exchange(chunks[rank], rank ^ mask, chunks[rank ^ mask], rank ^ mask)
    tensor.copy_(flat.view(tensor.shape))
