# Right: pure loops over heads, queries and keys with math.exp.
import math


def ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, causal: bool
) -> torch.Tensor:
    N, r = comm.world_size, comm.rank
    heads, positions, features = queries.shape
    best = [[-math.inf] * positions for _ in range(heads)]
    total = [[0.0] * positions for _ in range(heads)]
    result = torch.zeros_like(queries)
    k, v = keys, values
    for step in range(N):
        owner = (r - step) % N
        for h in range(heads):
            for a in range(positions):
                for b in range(positions):
                    if causal and owner * positions + b > r * positions + a:
                        continue
                    s = float(queries[h, a] @ k[h, b]) / math.sqrt(features)
                    if s > best[h][a]:
                        shrink = math.exp(best[h][a] - s)
                        total[h][a] *= shrink
                        result[h, a] *= shrink
                        best[h][a] = s
                    e = math.exp(s - best[h][a])
                    total[h][a] += e
                    result[h, a] += e * v[h, b]
        if step < N - 1:
            kv = torch.empty(2, heads, positions, features, dtype=torch.float64)
            comm.exchange(torch.stack((k, v)), (r + 1) % N, kv, (r - 1) % N)
            k, v = kv[0], kv[1]
    return result / torch.tensor(total, dtype=torch.float64).unsqueeze(2)
