# Right: sums and divides, gathers the squares of the ranks, one number from each
def shard_gradients(comm, parameters, max_norm):
    import math

    n, r = comm.world_size, comm.rank
    total = sum(p.numel() for p in parameters)
    size = -(-total // n)
    flat = parameters[0].new_zeros(n * size).detach()
    at = 0
    for p in parameters:
        flat[at : at + p.numel()].view_as(p).copy_(p.grad)
        p.grad = None
        at += p.numel()
    reduce_scatter(comm, flat)
    shard = flat[r * size : (r + 1) * size] / n
    slots = shard.new_zeros(n)
    slots[r] = shard.norm() ** 2
    all_gather(comm, slots)
    norm = math.sqrt(math.fsum(slots.tolist()))
    return shard * min(1.0, max_norm / (norm + 1e-6)) if norm > max_norm else shard, norm
