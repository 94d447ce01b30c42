# Right: a tensor of all ranks, whose axis is moved to the end.
import torch


def mesh_groups(sizes, axis):
    shape = tuple(sizes.values())
    ranks = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()
