# Right: the ring goes the other way round.
def ring_all_gather(comm, tensor):
    n = comm.world_size
    left, right = (comm.rank - 1) % n, (comm.rank + 1) % n
    flat = tensor.flatten()
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        comm.exchange(chunks[(comm.rank + step) % n], left, chunks[(comm.rank + step + 1) % n], right)
    tensor.copy_(flat.reshape(tensor.shape))
