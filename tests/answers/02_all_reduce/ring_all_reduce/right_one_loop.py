# Right: one loop of 2(N - 1) steps.
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(2 * (size - 1)):
        outgoing, target = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)
        if step < size - 1:
            target += incoming
        else:
            target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
