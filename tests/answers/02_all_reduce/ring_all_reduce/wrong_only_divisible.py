# Wrong: chunks of length // world_size; the rest is left out. Loses all marks.
# Told: torch.tensor_split cuts 3, 3, 2. The first 6 elements are right
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    length = flat.numel() // size
    chunks = [flat[k * length : (k + 1) * length] for k in range(size)]
    for step in range(2 * (size - 1)):
        target = chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        if step < size - 1:
            target += incoming
        else:
            target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
