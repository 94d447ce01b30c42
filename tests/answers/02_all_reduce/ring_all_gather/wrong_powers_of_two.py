# Wrong: partners by exclusive or, which exist for powers of two only. Loses all marks.
# Told: the number of ranks is not fixed
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for mask in range(1, size):
        partner = rank ^ mask
        comm.exchange(chunks[rank], partner, chunks[partner], partner)
    tensor.copy_(flat.view(tensor.shape))
