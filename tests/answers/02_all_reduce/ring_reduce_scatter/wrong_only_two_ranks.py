# Wrong: knows only one other rank. Loses all marks.
# Told: the number of ranks is not fixed
def ring_reduce_scatter(comm, tensor):
    if comm.world_size == 1:
        return
    other = 1 - comm.rank
    chunks = torch.tensor_split(tensor.reshape(-1), 2)
    incoming = torch.empty_like(chunks[comm.rank])
    comm.exchange(chunks[other], other, incoming, other)
    chunks[comm.rank].add_(incoming)
