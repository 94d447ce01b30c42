# Right: grouping in numpy, flat messages.
import numpy as np


def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, capacity: int
) -> tuple[torch.Tensor, list[int], int]:
    n, r = comm.world_size, comm.rank
    who = experts.numpy()
    f = tokens.shape[1]
    index = [np.flatnonzero(who == e)[:capacity] for e in range(n)]
    out = [torch.from_numpy(tokens.numpy()[i]).reshape(-1) for i in index]
    res, counts = [None] * n, [0] * n
    for i in range(n):
        to, fr = (r + i) % n, (r - i) % n
        if i == 0:
            res[r], counts[r] = out[r], len(index[r])
            continue
        k = torch.zeros(1, dtype=torch.int64)
        comm.exchange(torch.as_tensor([len(index[to])]), to, k, fr)
        counts[fr] = int(k)
        res[fr] = torch.zeros(counts[fr] * f, dtype=torch.float64)
        comm.exchange(out[to], to, res[fr], fr)
    return torch.cat(res).reshape(sum(counts), f), counts, int(who.size - sum(i.size for i in index))
