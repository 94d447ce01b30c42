# Right: sends in the "wrong" direction, yet right sums: a ring either way round deserves full marks.
def ring_all_reduce(comm, tensor):
    size = comm.world_size
    to, whence = (comm.rank - 1) % size, (comm.rank + 1) % size
    flat = tensor.flatten()
    chunks = flat.tensor_split(size)
    for step in range(size - 1):
        target = chunks[(comm.rank + step + 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(comm.rank + step) % size], to, incoming, whence)
        target.add_(incoming)
    for step in range(size - 1):
        comm.exchange(chunks[(comm.rank - 1 + step) % size], to, chunks[(comm.rank + step) % size], whence)
    tensor.copy_(flat.reshape(tensor.shape))
