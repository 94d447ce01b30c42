# Right: a ring of exchanges for the sums, and float64 for the norm
def shard_gradients(comm, parameters, max_norm):
    n, r = comm.world_size, comm.rank
    flat = torch.cat(
        [*(p.grad.ravel() for p in parameters), parameters[0].new_zeros(-sum(p.numel() for p in parameters) % n)]
    )
    flat = flat.detach()
    for p in parameters:
        p.grad = None
    rows = list(flat.view(n, -1).clone())
    del flat
    for hop in range(1, n):
        incoming = torch.zeros_like(rows[0])
        comm.exchange(rows[(r - hop) % n], (r + 1) % n, incoming, (r - 1) % n)
        rows[(r - hop - 1) % n] = rows[(r - hop - 1) % n] + incoming
    shard = rows[r] / n
    del rows
    squares, mine = 0.0, torch.tensor([shard.double().pow(2).sum().item()], dtype=shard.dtype)
    for hop in range(n - 1):
        squares += mine.item()
        incoming = torch.zeros_like(mine)
        comm.exchange(mine, (r + 1) % n, incoming, (r - 1) % n)
        mine = incoming
    squares += mine.item()
    norm = squares**0.5
    if norm > max_norm:
        shard.mul_(max_norm / (norm + 1e-6))
    return shard, norm
