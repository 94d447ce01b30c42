# Right: travels first, own block last, so that the maximum may be minus infinity: starts at the lowest finite number.
def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.world_size, comm.rank
    low = torch.finfo(torch.float64).min
    q = queries / queries.shape[-1] ** 0.5
    m = torch.full((*q.shape[:2], 1), low, dtype=torch.float64)
    top, bottom = torch.zeros_like(q), torch.zeros_like(m)
    hand = torch.stack([keys, values])
    for i in list(range(1, n)) + [0]:
        if i > 0:
            new = torch.empty_like(hand)
            comm.exchange(hand, (r + 1) % n, new, (r - 1) % n)
            hand = new
            k, v = hand
        else:
            k, v = keys, values
        if causal and i > r:
            continue
        s = q @ k.mT
        seen = torch.ones_like(s, dtype=torch.bool)
        if causal and i == 0:
            seen = seen.tril()
        bigger = torch.maximum(m, torch.where(seen, s, low).amax(-1, keepdim=True))
        e = torch.where(seen, torch.exp(s.masked_fill(~seen, low) - bigger), 0.0)
        c = torch.exp(m - bigger)
        top, bottom, m = top * c + e @ v, bottom * c + e.sum(-1, keepdim=True), bigger
    return top / bottom
