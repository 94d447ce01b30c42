# Right: empty parts are not sent, in the order of XOR-free shifts.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    parts = [tokens[experts == e][:capacity] for e in range(n)]
    come = [None] * n
    come[r] = parts[r]
    for i in range(1, n):
        to, fro = (r + i) % n, (r + n - i) % n
        k = torch.empty(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(parts[to])], dtype=torch.int64), to, k, fro)
        come[fro] = torch.empty((k.item(), tokens.size(1)), dtype=torch.float64)
        works = []
        if k.item() > 0:
            works.append(comm.irecv(come[fro], fro))
        if len(parts[to]) > 0:
            works.append(comm.isend(parts[to], to))
        for w in works:
            w.wait()
    return torch.cat(come), [len(c) for c in come], int(len(tokens) - sum(len(p) for p in parts))
