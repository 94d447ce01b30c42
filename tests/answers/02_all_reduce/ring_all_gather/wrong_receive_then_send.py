# Wrong: rank 0 sends first, everybody else receives before sending, so the steps queue up. Loses all marks.
# Told: your sends wait for one another
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(size - 1):
        outgoing, incoming = chunks[(rank - step) % size], chunks[(rank - 1 - step) % size]
        if rank == 0:
            comm.send(outgoing, next_rank)
            comm.recv(incoming, previous_rank)
        else:
            comm.recv(incoming, previous_rank)
            comm.send(outgoing, next_rank)
    tensor.copy_(flat.view(tensor.shape))
