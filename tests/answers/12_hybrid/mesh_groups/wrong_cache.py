# Wrong: remembers the answer by the name of the axis alone. Loses all marks.
# Told: something lives on from one call to
import numpy as np

_known = {}


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    if axis not in _known:
        grid = np.arange(np.prod(list(sizes.values()))).reshape(tuple(sizes.values()))
        _known[axis] = np.moveaxis(grid, list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()
    return _known[axis]
