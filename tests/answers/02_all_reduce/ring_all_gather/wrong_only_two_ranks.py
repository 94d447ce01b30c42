# Wrong: knows only one other rank. Loses all marks.
# Told: the number of ranks is not fixed
def ring_all_gather(comm, tensor):
    if comm.world_size == 1:
        return
    other = 1 - comm.rank
    chunks = torch.tensor_split(tensor.reshape(-1), 2)
    comm.exchange(chunks[comm.rank], other, chunks[other], other)
