# Right: the count as a tensor without dimensions, int32.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    features = tokens.shape[1]
    parts = [tokens[experts == e][:capacity] for e in range(n)]
    dropped = len(tokens) - sum(len(part) for part in parts)
    counts = [0] * n
    counts[r] = len(parts[r])
    came = [parts[r]] * n
    for i in range(1, n):
        dst, src = (r + i) % n, (r - i) % n
        number = torch.zeros((), dtype=torch.int32)
        comm.exchange(torch.tensor(len(parts[dst]), dtype=torch.int32), dst, number, src)
        counts[src] = int(number)
        came[src] = torch.empty(counts[src], features, dtype=tokens.dtype)
        comm.exchange(parts[dst], dst, came[src], src)
    return torch.cat(came), counts, dropped
