# Wrong: a gather to a master in the ring's clothing; the master sends each rank its chunk. Loses all marks.
# Told: that is the master of naive_all_reduce
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = 0, range(1, size)
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    if rank == next_rank:
        incoming = torch.empty_like(flat)
        for previous in previous_rank:
            comm.recv(incoming, previous)
            flat += incoming
        for previous in previous_rank:
            comm.send(chunks[previous], previous)
    else:
        comm.send(flat, next_rank)
        comm.recv(chunks[rank], next_rank)
    tensor.copy_(flat.view(tensor.shape))
