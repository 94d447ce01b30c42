# Wrong: a gather to a master in the ring's clothing; it sends the whole tensor to everybody. Loses all marks.
# Told: one rank collects everything and sends the result out
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    next_rank, previous_ranks = 0, range(1, size)
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    if rank == next_rank:
        for previous in previous_ranks:
            comm.recv(chunks[previous], previous)
        for previous in previous_ranks:
            comm.send(flat, previous)
    else:
        comm.send(chunks[rank], next_rank)
        comm.recv(flat, next_rank)
    tensor.copy_(flat.view(tensor.shape))
