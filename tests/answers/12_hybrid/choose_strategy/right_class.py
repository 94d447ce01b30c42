# Right: a class for candidates, ordered.
from functools import total_ordering


@total_ordering
class Candidate:
    def __init__(self, sizes, model, cluster, speed):
        self.layout = {"dp": sizes[0], "pp": sizes[1], "tp": sizes[2]}
        self.bytes = layout_memory(model, self.layout)
        self.seconds = layout_seconds(model, cluster, speed, self.layout)

    def __eq__(self, other):
        return self.seconds == other.seconds

    def __lt__(self, other):
        return self.seconds < other.seconds


def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    n = cluster.world_size
    sizes = {(n // p // t, p, t) for p in range(1, n + 1) for t in range(1, n // p + 1) if n % (p * t) == 0}
    sizes = {s for s in sizes if not (model["batch"] % s[0] or model["layers"] % s[1] or model["heads"] % s[2])}
    candidates = [Candidate(s, model, cluster, speed) for s in sizes]
    try:
        return min(c for c in candidates if c.bytes <= memory).layout
    except ValueError:
        least = min(c.bytes for c in candidates)
        raise ValueError(f"No layout fits. Needed: {format(least, '.0f')}") from None
