# Right: numpy, moveaxis.
import numpy as np


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    grid = np.arange(np.prod(list(sizes.values()))).reshape(tuple(sizes.values()))
    return np.moveaxis(grid, list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()
