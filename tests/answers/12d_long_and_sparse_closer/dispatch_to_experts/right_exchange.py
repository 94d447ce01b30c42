# Right: in step i with the ranks i before and behind; a number, then tokens.
def dispatch_to_experts(comm, tokens, experts, capacity):
    size, rank = comm.world_size, comm.rank
    parts = [tokens[experts == expert][:capacity] for expert in range(size)]
    came = [None] * size
    came[rank] = parts[rank]
    for i in range(1, size):
        to, of = (rank + i) % size, (rank - i) % size
        number = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(parts[to])]), to, number, of)
        came[of] = torch.zeros(number.item(), tokens.shape[1], dtype=tokens.dtype)
        comm.exchange(parts[to], to, came[of], of)
    dropped = len(tokens) - sum(map(len, parts))
    return torch.cat(came), [len(part) for part in came], dropped
