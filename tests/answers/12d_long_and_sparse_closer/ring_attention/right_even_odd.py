# Right: blocking send and recv, one rank starts by receiving.
def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.world_size, comm.rank
    m, num, den = None, None, None
    kv = torch.stack([keys, values])
    for i in range(n):
        if i:
            got = torch.empty_like(kv)
            if r == 0:
                comm.recv(got, n - 1)
                comm.send(kv, 1 % n)
            else:
                comm.send(kv, (r + 1) % n)
                comm.recv(got, r - 1)
            kv = got
        if causal and i > r:
            continue
        s = queries @ kv[0].mT / queries.shape[2] ** 0.5
        if causal and i == 0:
            s = s.masked_fill(torch.triu(torch.ones(s.shape[1:]), diagonal=1) == 1, -torch.inf)
        top = s.amax(2, keepdim=True)
        new = top if m is None else torch.maximum(m, top)
        e = (s - new).exp()
        if m is None:
            num, den = e @ kv[1], e.sum(2, keepdim=True)
        else:
            old = (m - new).exp()
            num, den = num * old + e @ kv[1], den * old + e.sum(2, keepdim=True)
        m = new
    return num / den
