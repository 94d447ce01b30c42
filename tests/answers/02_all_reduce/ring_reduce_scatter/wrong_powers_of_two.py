# Wrong: partners by exclusive or, which exist for powers of two only. Loses all marks.
# Told: the number of ranks is not fixed
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    total = chunks[rank].clone()
    for mask in range(1, size):
        partner = rank ^ mask
        incoming = torch.empty_like(total)
        comm.exchange(chunks[partner], partner, incoming, partner)
        total += incoming
    chunks[rank].copy_(total)
    tensor.copy_(flat.view(tensor.shape))
