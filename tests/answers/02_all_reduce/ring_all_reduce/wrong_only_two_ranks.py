# Wrong: knows only one other rank. Loses all marks.
# Told: the number of ranks is not fixed
def ring_all_reduce(comm, tensor):
    if comm.world_size == 1:
        return
    me, other = comm.rank, 1 - comm.rank
    chunks = torch.tensor_split(tensor.reshape(-1), 2)
    incoming = torch.empty_like(chunks[me])
    comm.exchange(chunks[other], other, incoming, other)
    chunks[me].add_(incoming)
    comm.exchange(chunks[me], other, chunks[other], other)
