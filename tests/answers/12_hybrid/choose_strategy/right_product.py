# Right: itertools.product over divisors.
from itertools import product


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    n = cluster.world_size
    best, least = None, float("inf")
    for tp, pp in product(divisors(n), repeat=2):
        dp, rest = divmod(n, tp * pp)
        if rest or dp == 0 or model["heads"] % tp or model["layers"] % pp or model["batch"] % dp:
            continue
        layout = dict(dp=dp, pp=pp, tp=tp)
        need = layout_memory(model, layout)
        least = min(least, need)
        if need > memory:
            continue
        seconds = layout_seconds(model, cluster, speed, layout)
        if best is None or seconds < best[0]:
            best = (seconds, layout)
    if best is None:
        raise ValueError(f"at least {least:.0f} bytes")
    return best[1]
