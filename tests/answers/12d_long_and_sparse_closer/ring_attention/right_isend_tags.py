# Right: isend and irecv with tags 1 and 2, waits after the computing (overlap).
def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.world_size, comm.rank
    nxt, prev = (r + 1) % n, (r - 1) % n
    k, v = keys.clone(), values.clone()
    m = torch.full((*queries.shape[:2], 1), -float("inf"), dtype=queries.dtype)
    a, b = torch.zeros_like(queries), torch.zeros_like(m)
    for i in range(n):
        works = []
        if i + 1 < n:
            k_in, v_in = torch.empty_like(k), torch.empty_like(v)
            works = [comm.irecv(k_in, prev, 1), comm.irecv(v_in, prev, 2), comm.isend(k, nxt, 1), comm.isend(v, nxt, 2)]
        src = (r - i) % n
        if not (causal and src > r):
            s = torch.matmul(queries, k.transpose(-1, -2)) / queries.shape[-1] ** 0.5
            if causal and src == r:
                s.masked_fill_(~torch.tril(torch.ones_like(s, dtype=torch.bool)), -float("inf"))
            mm = torch.max(m, s.amax(-1, True))
            c = torch.exp(m - mm)
            e = torch.exp(s - mm)
            a, b, m = a * c + e @ v, b * c + e.sum(-1, True), mm
        for work in works:
            work.wait()
        if works:
            k, v = k_in, v_in
    return a / b
