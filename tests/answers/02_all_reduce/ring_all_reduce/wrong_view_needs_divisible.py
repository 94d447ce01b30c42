# Wrong: view(world_size, -1) fails when the length does not divide. Loses all marks.
# Told: view(world_size, -1) needs a length that divides
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = flat.view(size, -1)
    for step in range(2 * (size - 1)):
        target = chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        if step < size - 1:
            target += incoming
        else:
            target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
