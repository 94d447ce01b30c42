# Right: each rank sends every other one its part of the gradient, and its square, by itself.
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
    for parameter in parameters:
        parameter.grad = None
    rank, size = comm.rank, comm.world_size
    share = -(-len(flat) // size)
    parts = [flat[k * share : (k + 1) * share] for k in range(size)]
    total, incoming = parts[rank].clone(), torch.empty_like(parts[rank])
    for k in range(1, size):
        comm.exchange(parts[(rank + k) % size], (rank + k) % size, incoming, (rank - k) % size)
        total += incoming
    shard = torch.nn.functional.pad(total / size, (0, share - len(total)))
    squares = theirs = shard.square().sum().reshape(1)
    for k in range(1, size):
        theirs = torch.empty_like(squares)
        comm.exchange(shard.square().sum().reshape(1), (rank + k) % size, theirs, (rank - k) % size)
        squares = squares + theirs
    norm = squares.item() ** 0.5
    return (shard * (max_norm / (norm + 1e-6)) if norm > max_norm else shard), norm
