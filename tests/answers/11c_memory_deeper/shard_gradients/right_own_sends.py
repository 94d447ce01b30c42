# Right: sends each other rank its chunk of the gradients, receives theirs, and the norm the same way
def shard_gradients(comm, parameters, max_norm):
    n, me = comm.world_size, comm.rank
    flat = torch.cat([p.grad.flatten() for p in parameters])
    flat = torch.cat([flat, flat.new_zeros((n - len(flat) % n) % n)])
    chunks = [chunk.clone() for chunk in flat.split(len(flat) // n)]
    for p in parameters:
        p.grad = None

    def swap(outgoing):
        """outgoing[r] goes to rank r; what comes from each rank, in their order."""
        incoming = [torch.zeros_like(outgoing[me]) for _ in range(n)]
        incoming[me] = outgoing[me]
        work = [comm.isend(outgoing[r], r) for r in range(n) if r != me]
        work += [comm.irecv(incoming[r], r) for r in range(n) if r != me]
        for w in work:
            w.wait()
        return incoming

    shard = torch.stack(swap(chunks)).mean(0)
    norm = torch.stack(swap([shard.square().sum().view(1)] * n)).sum().sqrt()
    if norm > max_norm:
        shard = shard * (max_norm / (norm + 1e-6))
    return shard, norm.item()
