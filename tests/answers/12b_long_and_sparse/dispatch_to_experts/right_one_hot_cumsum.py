# Right: position within the expert by one-hot and cumsum.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    features = tokens.shape[1]
    chosen = torch.nn.functional.one_hot(experts, n)
    place = (chosen.cumsum(0) * chosen).sum(1)
    keep = place <= capacity
    parts = [tokens[keep & (experts == e)] for e in range(n)]
    dropped = int((~keep).sum())
    counts = [0] * n
    counts[r] = len(parts[r])
    came = [parts[r]] * n
    for i in range(1, n):
        dst, src = (r + i) % n, (r - i) % n
        number = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(parts[dst])]), dst, number, src)
        counts[src] = int(number)
        came[src] = torch.empty(counts[src], features, dtype=tokens.dtype)
        comm.exchange(parts[dst], dst, came[src], src)
    return torch.cat(came), counts, dropped
