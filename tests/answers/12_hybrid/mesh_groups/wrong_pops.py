# Wrong: takes the axes out of the caller's dict. Loses all marks.
# Told: it has changed its argument sizes
import torch


def mesh_groups(sizes, axis):
    names, shape = list(sizes), []
    while sizes:
        shape.append(sizes.pop(names[len(shape)]))
    ranks = torch.arange(torch.Size(shape).numel()).reshape(shape)
    return ranks.movedim(names.index(axis), -1).reshape(-1, shape[names.index(axis)]).tolist()
