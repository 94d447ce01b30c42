# Wrong: view(-1) does not work on a tensor that is not contiguous. Loses the hidden marks.
# Told: view(-1) needs a tensor whose memory is contiguous
def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    chunks = torch.tensor_split(tensor.view(-1), size)
    for step in range(2 * (size - 1)):
        target = chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(target)
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        if step < size - 1:
            target += incoming
        else:
            target.copy_(incoming)
