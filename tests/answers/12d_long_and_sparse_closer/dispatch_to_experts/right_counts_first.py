# Right: all counts in a first round, all tokens in a second.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    index = [torch.where(experts == e)[0][:capacity] for e in range(n)]
    sending = torch.tensor([len(i) for i in index])
    counts = torch.zeros_like(sending)
    counts[r] = sending[r]
    for i in range(1, n):
        a, b = (r + i) % n, (r - i) % n
        comm.exchange(sending[a : a + 1], a, counts[b : b + 1], b)
    ends = counts.cumsum(0).tolist()
    result = torch.empty(ends[-1], tokens.shape[1], dtype=tokens.dtype)
    rows = [result[end - count : end] for end, count in zip(ends, counts.tolist())]
    rows[r][:] = tokens[index[r]]
    for i in range(1, n):
        a, b = (r + i) % n, (r - i) % n
        comm.exchange(tokens[index[a]], a, rows[b], b)
    return result, counts.tolist(), len(tokens) - int(sending.sum())
