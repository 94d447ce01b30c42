# Right: takes the counts from whoever comes first.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    parts = [tokens[experts == e][:capacity] for e in range(n)]
    sends = []
    for e in range(n):
        if e != r:
            sends.append(comm.isend(torch.tensor([len(parts[e])]), e, tag=7))
            sends.append(comm.isend(parts[e], e, tag=8))
    came = {r: parts[r]}
    for _ in range(n - 1):
        k = torch.zeros(1, dtype=torch.int64)
        src = comm.recv(k, None, tag=7)
        came[src] = torch.empty(int(k), tokens.shape[1], dtype=torch.float64)
        comm.recv(came[src], src, tag=8)
    for s in sends:
        s.wait()
    return (
        torch.cat([came[s] for s in sorted(came)]),
        [len(came[s]) for s in sorted(came)],
        len(tokens) - sum(len(p) for p in parts),
    )
