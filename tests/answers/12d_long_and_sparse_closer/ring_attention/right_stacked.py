# Right: keys and values stacked in one message, exchange.
def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.world_size, comm.rank
    scale = queries.shape[-1] ** 0.5
    block = torch.stack([keys, values])
    m = torch.full(queries.shape[:2], float("-inf"), dtype=torch.float64)
    den = torch.zeros_like(m)
    num = torch.zeros_like(queries)
    positions = queries.shape[1]
    for i in range(n):
        owner = (r - i) % n
        if not causal or owner <= r:
            s = queries @ block[0].transpose(1, 2) / scale
            if causal and owner == r:
                s = s.masked_fill(torch.ones(positions, positions, dtype=torch.bool).triu(1), float("-inf"))
            new = torch.maximum(m, s.amax(-1))
            factor = torch.exp(m - new)
            w = torch.exp(s - new[..., None])
            num = num * factor[..., None] + w @ block[1]
            den = den * factor + w.sum(-1)
            m = new
        if i < n - 1:
            incoming = torch.empty_like(block)
            comm.exchange(block, (r + 1) % n, incoming, (r - 1) % n)
            block = incoming
    return num / den[..., None]
