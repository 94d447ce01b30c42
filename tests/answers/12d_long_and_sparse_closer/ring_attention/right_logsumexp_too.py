# Right: partial outputs merged by logsumexp and logaddexp.
def _part(q, k, v, hide):
    s = q @ k.mT / q.size(-1) ** 0.5
    if hide:
        s = s + torch.triu(torch.full(s.shape[-2:], -torch.inf, dtype=s.dtype), 1)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1, keepdim=True)


def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    n, r = comm.world_size, comm.rank
    out, lse = _part(queries, keys, values, causal)
    hand = torch.cat([keys, values], dim=-1)
    for i in range(1, n):
        got = torch.empty_like(hand)
        comm.exchange(hand, (r + 1) % n, got, (r - 1) % n)
        hand = got
        if causal and i > r:
            continue
        o, part_lse = _part(queries, *hand.chunk(2, dim=-1), False)
        both = torch.logaddexp(lse, part_lse)
        out = out * (lse - both).exp() + o * (part_lse - both).exp()
        lse = both
    return out
