# Wrong: odd and even ranks take turns in sending, so it takes twice the rounds. Loses all marks.
# Told: your sends wait for one another
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for step in range(2 * (size - 1)):
        outgoing, target = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        if rank % 2 == 0:
            comm.send(outgoing, next_rank)
            comm.recv(incoming, previous_rank)
        else:
            comm.recv(incoming, previous_rank)
            comm.send(outgoing, next_rank)
        if step < size - 1:
            target += incoming
        else:
            target.copy_(incoming)
    tensor.copy_(flat.view(tensor.shape))
