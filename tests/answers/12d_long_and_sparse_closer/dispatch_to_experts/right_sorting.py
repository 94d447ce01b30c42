# Right: stable argsort by expert, bincount, split.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    wanted = torch.bincount(experts, minlength=n)
    order = torch.argsort(experts, stable=True)
    parts = [part[:capacity] for part in tokens[order].split(wanted.tolist())]
    dropped = int((wanted - capacity).clamp(min=0).sum())
    came = list(parts)
    for i in range(1, n):
        dst, src = (r + i) % n, (r - i) % n
        k = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(parts[dst])]), dst, k, src)
        came[src] = torch.zeros(int(k), tokens.shape[1], dtype=tokens.dtype)
        comm.exchange(parts[dst], dst, came[src], src)
    return torch.cat(came, dim=0), [c.shape[0] for c in came], dropped
