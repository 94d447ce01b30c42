# Wrong: one message per token. Loses all marks.
# Told: all tokens for an expert go in one message
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
        number = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(parts[dst])]), dst, number, src)
        counts[src] = int(number)
        came[src] = torch.empty(counts[src], features, dtype=tokens.dtype)
        works = [comm.irecv(came[src][k], src) for k in range(counts[src])]
        works += [comm.isend(row, dst) for row in parts[dst]]
        for work in works:
            work.wait()
    return torch.cat(came), counts, dropped
