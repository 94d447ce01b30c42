# Right: recursion over the three axes.
def _split(n, limits):
    if len(limits) == 1:
        return [(n,)] if limits[0] % n == 0 else []
    return [
        (first,) + rest
        for first in range(1, n + 1)
        if n % first == 0 and limits[0] % first == 0
        for rest in _split(n // first, limits[1:])
    ]


def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    found = [
        dict(zip(("dp", "pp", "tp"), sizes))
        for sizes in _split(cluster.world_size, [model["batch"], model["layers"], model["heads"]])
    ]
    needs = [layout_memory(model, each) for each in found]
    seconds = {i: layout_seconds(model, cluster, speed, found[i]) for i, need in enumerate(needs) if not need > memory}
    if len(seconds) == 0:
        raise ValueError("no layout fits; the one that needs the least needs " + str(int(round(min(needs)))) + " bytes")
    return found[min(seconds, key=seconds.get)]
