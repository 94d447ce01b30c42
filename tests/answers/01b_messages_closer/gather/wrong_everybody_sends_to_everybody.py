# Wrong: everybody gets everything; only the root returns it. Loses all marks.
# Told: every rank sends to the root, and to nobody else
def gather(comm, tensor, root=0):
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[comm.rank] = tensor
    for other in range(comm.world_size):
        if other != comm.rank:
            comm.exchange(tensor, other, gathered[other], other)
    return gathered if comm.rank == root else None
