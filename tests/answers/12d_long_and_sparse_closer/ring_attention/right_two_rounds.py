# Right: positions are compared, block by block; a finite number in the place of minus infinity.
def ring_attention(comm, queries, keys, values, causal):
    positions = keys.shape[1]
    mine = torch.arange(positions) + comm.rank * positions
    largest = torch.full_like(queries[..., :1], -1e300)
    weights, sums = torch.zeros_like(largest), torch.zeros_like(queries)
    block, owner = torch.stack((keys, values)), comm.rank
    for _ in range(comm.world_size):
        theirs = torch.arange(positions) + owner * positions
        hidden = causal & (theirs[None, :] > mine[:, None])
        scores = (queries @ block[0].transpose(-1, -2) * keys.shape[2] ** -0.5).masked_fill(hidden, -1e300)
        new = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        part = (scores - new).exp().masked_fill(hidden, 0)
        weights = weights * (largest - new).exp() + part.sum(dim=-1, keepdim=True)
        sums = sums * (largest - new).exp() + part @ block[1]
        largest = new
        owner = (owner - 1) % comm.world_size
        if owner != comm.rank:
            arriving = torch.empty_like(block)
            comm.exchange(block, (comm.rank + 1) % comm.world_size, arriving, (comm.rank - 1) % comm.world_size)
            block = arriving
    return sums / weights
