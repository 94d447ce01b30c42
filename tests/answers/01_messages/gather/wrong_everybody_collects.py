# Wrong: an all-gather: everybody gets everything. Loses all marks.
# Told: only the root collects
def gather(comm, tensor, root=0):
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[comm.rank] = tensor
    for other in range(comm.world_size):
        if other != comm.rank:
            comm.exchange(tensor, other, gathered[other], other)
    return gathered
