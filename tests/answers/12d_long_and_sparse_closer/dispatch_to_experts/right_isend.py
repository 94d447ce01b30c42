# Right: loops over tokens; everything begins at once, and empty parts are not sent.
def dispatch_to_experts(comm, tokens, experts, capacity):
    places, dropped = {e: [] for e in range(comm.world_size)}, 0
    for place, e in enumerate(experts.tolist()):
        if len(places[e]) < capacity:
            places[e].append(place)
        else:
            dropped += 1
    others = [r for r in range(comm.world_size) if r != comm.rank]
    numbers = {r: torch.tensor([float(len(places[r]))]) for r in others}
    theirs = {r: torch.empty(1) for r in others}
    works = [comm.isend(numbers[r], r) for r in others] + [comm.irecv(theirs[r], r) for r in others]
    for work in works:
        work.wait()
    buffers = {r: torch.empty(int(theirs[r]), tokens.shape[1], dtype=torch.float64) for r in others}
    sent = {r: tokens[places[r]] for r in others}
    works = [comm.isend(sent[r], r, tag=1) for r in others if len(sent[r])]
    works += [comm.irecv(buffers[r], r, tag=1) for r in others if len(buffers[r])]
    for work in works:
        work.wait()
    buffers[comm.rank] = tokens[places[comm.rank]]
    in_order = [buffers[r] for r in range(comm.world_size)]
    return torch.cat(in_order, dim=0), [part.shape[0] for part in in_order], dropped
