# Right: numpy: nodes of all ranks as a grid.
import numpy as np


def layout_seconds(model: Mapping[str, int], cluster: Cluster, speed: float, layout: Mapping[str, int]) -> float:
    names = ("dp", "pp", "tp")
    nodes = np.array([cluster.node_of(r) for r in range(cluster.world_size)]).reshape([layout[n] for n in names])
    link = {n: cluster.inter if np.ptp(nodes, axis=i).any() else cluster.intra for i, n in enumerate(names)}
    alpha = np.array([link[n].latency for n in names])
    beta = np.array([1 / link[n].bandwidth for n in names])
    size = np.array([layout[n] for n in names], dtype=float)
    p = 12 * model["layers"] * model["features"] ** 2 / (size[1] * size[2])
    v = 2.0 * model["sequence"] * model["features"]
    rounds = model["batch"] / size[0] + size[1] - 1
    often = np.array([1, 1, 4 * model["layers"] / size[1] * rounds])
    nbytes = np.array([2 * p / size[0], v, v / size[2]])
    messages = (often * 2 * (size - 1) * (alpha + nbytes * beta)).sum()
    return float(rounds * 6 * p * model["sequence"] / speed + messages)
