# Right: a torch tensor, reshaped to three dimensions.
import math

import torch


def mesh_groups(sizes: Mapping[str, int], axis: str) -> list[list[int]]:
    names = list(sizes)
    at = names.index(axis)
    before = math.prod(sizes[n] for n in names[:at])
    after = math.prod(sizes[n] for n in names[at + 1 :])
    cube = torch.arange(before * sizes[axis] * after).view(before, sizes[axis], after)
    return cube.transpose(1, 2).reshape(-1, sizes[axis]).tolist()
