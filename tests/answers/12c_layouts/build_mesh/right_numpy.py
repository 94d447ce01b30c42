# Right: numpy.unravel_index, the color by ravel_multi_index.
import numpy as np


def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    shape = tuple(sizes.values())
    if int(np.prod(shape)) != comm.world_size:
        raise ValueError(f"{int(np.prod(shape))} != {comm.world_size}")
    where = [int(c) for c in np.unravel_index(comm.rank, shape)]
    mesh = {}
    for i, name in enumerate(sizes):
        corner = where[:i] + [0] + where[i + 1 :]
        mesh[name] = comm.split(int(np.ravel_multi_index(corner, shape)), where[i])
    return mesh
