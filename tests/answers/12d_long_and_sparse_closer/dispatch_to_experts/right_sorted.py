# Right: sorts tokens by their experts, stably; counts as a tensor.
def dispatch_to_experts(comm, tokens, experts, capacity):
    order = torch.argsort(experts, stable=True)
    counts = torch.bincount(experts, minlength=comm.world_size)
    parts = [part[:capacity].contiguous() for part in tokens[order].split(counts.tolist())]
    came = {comm.rank: parts[comm.rank].clone()}
    for step in range(1, comm.world_size):
        dst, src = (comm.rank + step) % comm.world_size, (comm.rank - step) % comm.world_size
        number = torch.empty(1, dtype=torch.int32)
        comm.exchange(torch.tensor([parts[dst].shape[0]], dtype=torch.int32), dst, number, src)
        came[src] = tokens.new_empty(int(number), tokens.shape[1])
        comm.exchange(parts[dst], dst, came[src], src)
    rows = [came[src] for src in sorted(came)]
    dropped = int((counts - capacity).clamp(min=0).sum())
    return torch.vstack(rows), torch.tensor([len(each) for each in rows]), dropped
