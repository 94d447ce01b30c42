# Right: the ring goes the other way round.
def ring_reduce_scatter(comm, tensor):
    n = comm.world_size
    left, right = (comm.rank - 1) % n, (comm.rank + 1) % n
    flat = tensor.flatten()
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        outgoing = chunks[(comm.rank + 1 + step) % n]
        target = chunks[(comm.rank + 2 + step) % n]
        incoming = torch.empty_like(target)
        comm.exchange(outgoing, left, incoming, right)
        target += incoming
    tensor.copy_(flat.reshape(tensor.shape))
