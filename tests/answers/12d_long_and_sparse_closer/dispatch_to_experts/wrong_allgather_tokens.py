# Wrong: sends all tokens to everybody and each picks its own. Loses all marks.
# Told: send tokens as they are, without padding
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    came = [None] * n
    for i in range(n):
        dst, src = (r + i) % n, (r - i) % n
        if i == 0:
            t, e = tokens, experts
        else:
            k = torch.zeros(1, dtype=torch.int64)
            comm.exchange(torch.tensor([len(tokens)]), dst, k, src)
            t = torch.zeros(int(k), tokens.shape[1], dtype=tokens.dtype)
            e = torch.zeros(int(k), dtype=torch.int64)
            comm.exchange(tokens, dst, t, src)
            comm.exchange(experts, dst, e, src)
        came[src] = t[e == r][:capacity]
    dropped = sum(max(0, int((experts == e).sum()) - capacity) for e in range(n))
    return torch.cat(came), [len(c) for c in came], dropped
