# Right: blocking send and recv; of each pair the lower rank sends first.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    parts = [tokens[experts == e][:capacity] for e in range(n)]

    def give(other):
        comm.send(torch.tensor([len(parts[other])]), other)
        comm.send(parts[other], other)

    def take(other):
        k = torch.zeros(1, dtype=torch.int64)
        comm.recv(k, other)
        box = torch.zeros(int(k[0]), tokens.shape[1], dtype=torch.float64)
        comm.recv(box, other)
        return box

    came = []
    for other in range(n):
        if other == r:
            came.append(parts[r])
        elif r < other:
            give(other)
            came.append(take(other))
        else:
            box = take(other)
            give(other)
            came.append(box)
    return torch.cat(came), [len(box) for box in came], len(tokens) - sum(len(p) for p in parts)
