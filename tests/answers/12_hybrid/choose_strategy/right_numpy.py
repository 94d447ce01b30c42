# Right: numpy: argmin with infinity for what does not fit.
import numpy as np


def choose_strategy(model: Mapping[str, int], cluster: Cluster, memory: float, speed: float) -> dict[str, int]:
    n = cluster.world_size
    grid = np.stack(np.meshgrid(*[np.arange(1, n + 1)] * 2, indexing="ij"), -1).reshape(-1, 2)
    ok = grid[n % grid.prod(1) == 0]
    ok = np.column_stack([n // ok.prod(1), ok])
    ok = ok[(model["batch"] % ok[:, 0] == 0) & (model["layers"] % ok[:, 1] == 0) & (model["heads"] % ok[:, 2] == 0)]
    layouts = [dict(zip(["dp", "pp", "tp"], row)) for row in ok.tolist()]
    need = np.array([layout_memory(model, each) for each in layouts])
    time = np.array([layout_seconds(model, cluster, speed, each) for each in layouts])
    if (need > memory).all():
        raise ValueError(f"memory of at least {int(np.rint(need.min()))} bytes")
    return layouts[int(np.where(need <= memory, time, np.inf).argmin())]
