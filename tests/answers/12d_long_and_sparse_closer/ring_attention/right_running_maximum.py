# Right: keys and values in two messages; the running maximum.
def ring_attention(comm, queries, keys, values, causal):
    n, d = queries.shape[1:]
    right, left = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    k, v = keys, values
    m = torch.full(queries.shape[:2], -float("inf"), dtype=torch.float64)
    total = torch.zeros_like(m)
    out = torch.zeros_like(queries)
    for step in range(comm.world_size):
        src = (comm.rank - step) % comm.world_size
        if src <= comm.rank or not causal:
            s = torch.einsum("hqd,hkd->hqk", queries, k) / d**0.5
            if causal and src == comm.rank:
                s = s + torch.full((n, n), -float("inf"), dtype=torch.float64).triu(1)
            new = torch.maximum(m, s.max(dim=-1).values)
            p = torch.exp(s - new[..., None])
            factor = torch.exp(m - new)
            total = total * factor + p.sum(-1)
            out = out * factor[..., None] + p @ v
            m = new
        if step + 1 < comm.world_size:
            new_k, new_v = torch.empty_like(k), torch.empty_like(v)
            comm.exchange(k, right, new_k, left)
            comm.exchange(v, right, new_v, left)
            k, v = new_k, new_v
    return out / total[..., None]
