# Wrong: the largest score begins at -100000. Loses the hidden marks.
# Told: Subtract the largest score so far before exp
def _absorb(
    queries: torch.Tensor,
    block: torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    diagonal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The largest score, the weights and the weighted values with this block."""
    largest, weights, sums = state
    scores = queries @ block[0].transpose(-1, -2) / queries.shape[-1] ** 0.5
    if diagonal:
        above = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(above, -torch.inf)
    now = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
    shrink, scores = (largest - now).exp(), (scores - now).exp()
    return (
        now,
        weights * shrink + scores.sum(dim=-1, keepdim=True),
        sums * shrink + scores @ block[1],
    )


def ring_attention(
    comm: Communicator,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    causal: bool,
) -> torch.Tensor:
    """The attention of this rank's positions to those of all ranks."""
    ranks, me = comm.world_size, comm.rank
    largest = torch.full_like(queries[..., :1], -1e5)
    state = largest, torch.zeros_like(largest), torch.zeros_like(values)
    block = torch.stack((keys, values))
    for step in range(ranks):
        source = (me - step) % ranks
        if not causal or source <= me:
            state = _absorb(queries, block, state, diagonal=causal and source == me)
        if step + 1 < ranks:
            incoming = torch.empty_like(block)
            comm.exchange(block, (me + 1) % ranks, incoming, (me - 1) % ranks)
            block = incoming
    return state[2] / state[1]
