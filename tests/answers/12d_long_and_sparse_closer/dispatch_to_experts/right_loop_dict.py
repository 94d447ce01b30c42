# Right: token by token into a dict of lists, counts its drops.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    boxes = {e: [] for e in range(n)}
    dropped = 0
    for token, e in zip(tokens, experts.tolist()):
        if len(boxes[e]) < capacity:
            boxes[e].append(token)
        else:
            dropped += 1
    pack = {e: torch.stack(b) if b else torch.empty(0, tokens.shape[1], dtype=torch.float64) for e, b in boxes.items()}
    counts, rows = [], []
    for other in range(n):
        if other == r:
            counts.append(len(pack[r]))
            rows.append(pack[r])
            continue
        k = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.tensor([len(pack[other])]), other, k, other)
        got = torch.zeros(k.item(), tokens.shape[1], dtype=torch.float64)
        comm.exchange(pack[other], other, got, other)
        counts.append(k.item())
        rows.append(got)
    return torch.cat(rows), counts, dropped
