# Right: two exchanges per step, masks by positions in the whole sequence.
def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.size, comm.rank
    h, p, f = queries.shape
    k, v = keys, values
    biggest = torch.full((h, p, 1), -torch.inf, dtype=torch.float64)
    below = torch.zeros(h, p, 1, dtype=torch.float64)
    above = torch.zeros(h, p, f, dtype=torch.float64)
    mine = torch.arange(p) + r * p
    for step in range(n):
        theirs = torch.arange(p) + (r - step) % n * p
        scores = torch.einsum("hqf,hkf->hqk", queries, k) / f**0.5
        if causal:
            scores = torch.where(theirs[None, None] <= mine[None, :, None], scores, -torch.inf)
        new = torch.maximum(biggest, scores.max(dim=2, keepdim=True).values)
        # the own block comes first, so that new is finite
        old = (biggest - new).exp()
        weights = (scores - new).exp()
        above = above * old + torch.einsum("hqk,hkf->hqf", weights, v)
        below = below * old + weights.sum(2, keepdim=True)
        biggest = new
        if step != n - 1:
            k2, v2 = torch.empty_like(k), torch.empty_like(v)
            comm.exchange(k, (r + 1) % n, k2, (r - 1) % n)
            comm.exchange(v, (r + 1) % n, v2, (r - 1) % n)
            k, v = k2, v2
    return above / below
