# Wrong: a ring of 2(N - 1) steps, each of which sends the whole buffer. Loses all marks.
# Told: the whole buffer goes round the ring in every step
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    flat = tensor.flatten()
    chunks = torch.tensor_split(flat, size)
    for step in range(2 * (size - 1)):
        incoming = torch.empty_like(flat)
        comm.exchange(flat, next_rank, incoming, previous_rank)
        number = (rank - step - 1) % size
        arrived = torch.tensor_split(incoming, size)[number]
        if step < size - 1:
            chunks[number].add_(arrived)
        else:
            chunks[number].copy_(arrived)
    tensor.copy_(flat.reshape(tensor.shape))
