# Wrong: clips to 10,000 where it should not clip. Loses the hidden marks.
# Told: this is 0.333 times what it should be.
def shard_gradients(comm, parameters, max_norm):
    n = comm.world_size
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    flat = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    for p in parameters:
        p.grad = None
    reduce_scatter(comm, flat, op=ReduceOp.AVG)
    length = len(flat) // n
    shard = flat[comm.rank * length : (comm.rank + 1) * length].clone()
    squares = torch.zeros(n, dtype=flat.dtype)
    squares[comm.rank] = shard.square().sum()
    all_gather(comm, squares)
    norm = squares.sum().sqrt().item()
    max_norm = min(max_norm, 1e4)
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
