# Right: everything begun at once with isend and irecv, tags 0 and 1.
def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, me = comm.world_size, comm.rank
    others = [k for k in range(n) if k != me]
    parts = {e: tokens[(experts == e).nonzero().flatten()[:capacity]] for e in range(n)}
    numbers = {k: torch.empty(1, dtype=torch.int64) for k in others}
    works = [comm.irecv(numbers[k], k) for k in others]
    works += [comm.isend(torch.tensor([parts[k].shape[0]]), k) for k in others]
    works += [comm.isend(parts[k], k, tag=1) for k in others]
    for work in works[: len(others)]:
        work.wait()
    boxes = {k: tokens.new_empty((int(numbers[k].item()), tokens.shape[1])) for k in others}
    works += [comm.irecv(boxes[k], k, tag=1) for k in others]
    for work in works[len(others) :]:
        work.wait()
    boxes[me] = parts[me]
    return (
        torch.cat([boxes[k] for k in range(n)]),
        [len(boxes[k]) for k in range(n)],
        len(tokens) - sum(map(len, parts.values())),
    )
